"""Chinese."""

from types import MappingProxyType

from alerts.words import Words
from catalog.spec import Sort
from catalog.watches import EventType
from catalog.words import Level, Purchase

ZH = Words(
    headlines=MappingProxyType(
        {
            EventType.STOCK_OUT: "已售罄",
            EventType.STOCK_LOW: "库存紧张",
            EventType.STOCK_BACK: "恢复有货",
            EventType.PRICE_BELOW: "价格低于设定值",
            EventType.PRICE_CHANGED: "价格有变动",
            EventType.BEST_CHANGED: "最优选择有变化",
            EventType.SOURCE_STALE: "数据已过期",
            EventType.SOURCE_BACK: "数据恢复更新",
            EventType.REMINDER: "仍然无货",
            EventType.SUMMARY: "超出每日上限、未单独通知的消息",
            EventType.HEARTBEAT: "监控运行正常",
            EventType.EXPIRED: "监控已到期",
            EventType.TARGET_DEAD: "通知目标已失效",
            EventType.TEST: "测试消息",
        }
    ),
    grouped=MappingProxyType(
        {
            EventType.STOCK_OUT: "{provider} 突然显示全部无货",
            EventType.STOCK_BACK: "{provider} 突然显示全部有货",
        }
    ),
    notes=MappingProxyType(
        {
            EventType.SOURCE_STALE: "这并不代表已售罄。在获得新数据之前，沿用最近一次的已知状态。",
            EventType.SUMMARY: "如需逐条及时接收，请调高该监控的每日上限。",
            EventType.HEARTBEAT: "暂无新消息：所监控的情况均未发生。",
            EventType.EXPIRED: "此后不再发送通知。如仍需要，请续期。",
            EventType.TARGET_DEAD: "已停止向其发送通知。请更换地址，或删除该目标。",
            EventType.TEST: "看到这条消息，说明通知目标可以正常使用。",
        }
    ),
    levels=MappingProxyType(
        {Level.IN_STOCK: "有货", Level.LOW: "库存紧张", Level.UNKNOWN: "库存未知", Level.OUT: "无货"}
    ),
    states=MappingProxyType({"available": "有货", "out": "无货", "unknown": "未知"}),
    purchases=MappingProxyType(
        {
            Purchase.ON_DEMAND: "按量付费",
            Purchase.SPOT: "竞价实例",
            Purchase.MONTH: "包月",
            Purchase.RESERVED_1Y: "预留 1 年",
            Purchase.RESERVED_3Y: "预留 3 年",
            Purchase.SAVINGS_1Y: "节省计划 1 年",
            Purchase.SAVINGS_3Y: "节省计划 3 年",
            Purchase.CAPACITY_BLOCK: "容量块",
        }
    ),
    units=MappingProxyType(
        {
            Sort.PRICE: "每台每小时 {amount}",
            Sort.PRICE_PER_GPU: "每卡每小时 {amount}",
            Sort.PRICE_PER_VRAM: "每 GiB 显存每小时 {amount}",
            Sort.PRICE_PER_TFLOP: "每 TFLOPS 每小时 {amount}",
            Sort.JOB_COST: "整个任务 {amount}",
        }
    ),
    separator="，",
    titled="{headline}：{subject}",
    labelled="{label}：{value}",
    named="{code}（{name}）",
    zone="可用区 {zone}",
    gpus="{count} x {gpu}",
    gpu_unknown="GPU 型号未知",
    price_unknown="价格未知",
    price_stale="价格已过期",
    estimated="估算",
    at_once="需预付 {price}",
    window="{start} 至 {end}",
    last_seen="{at} 最后一次查询时{level}，数据已过期",
    watch="监控",
    watches="相关监控",
    since="开始时间",
    at="时间",
    state="状态",
    target="目标",
    reason="原因",
    limit="设定值",
    before="此前",
    now="现在",
    last_success="最近一次成功 {at}",
    suspicious="情况可疑，请先向云厂商核实，再采取行动。",
    unknown="目前状况不明，未计为售罄",
    use_instead="可改用",
    nothing_instead="暂无已知的替代选择。",
    more="另有 {count} 项",
    start="启动 {machine} 的命令：",
    page="在 gpufare 中查看",
)
