"""The names of accounts: `tencent`, and beside it `tencent_intl`, another account of the same provider."""


def kind_of(provider: str) -> str:
    """The provider that an account is one of: what stands before the first `_`, which no provider's name has."""
    return provider.partition("_")[0]
