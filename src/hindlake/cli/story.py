"""The traces of the demo: a week of a small support desk, in English and Chinese, told through the SDK."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ..memory_store.clock import ManualClock
from ..sdk.recorder import Recorder

#: The customer who complains in the morning and comes back in the afternoon.
CUSTOMER = "user:lin"
#: The customer whose budget changes.
BUYER = "user:mei"


@dataclass(frozen=True)
class Told:
    """One trace that was logged, in a line."""

    at: datetime
    goal: str
    outcome: str


class Story:
    """Logs the week, one task after the other, on a clock that it moves."""

    def __init__(self, recorder: Recorder, clock: ManualClock, today: datetime) -> None:
        self._recorder, self._clock, self._today = recorder, clock, today
        self.told: list[Told] = []

    def tell(self) -> list[Told]:
        """Log every trace and return them in the order told."""
        self._budget(6, "5000", "帮我找一台适合写代码的显示器。我的预算是5000元。")
        self._expired_card_fails()
        self._expired_card_is_solved()
        self._rate_is_retried()
        self._weather_fails()
        self._no_direct_flight()
        self._wrong_seat()
        self._budget(1, "8000", "显示器先不买了，我的预算改成8000元，重新推荐一下。")
        self._late_parcel()
        return self.told

    def _at(self, days: int, hour: int, minute: int = 0) -> None:
        self._clock.time = self._today - timedelta(days=days) + timedelta(hours=hour, minutes=minute)

    def _later(self, seconds: int = 20) -> None:
        self._clock.advance(seconds=seconds)

    def _done(self, goal: str, outcome: str) -> None:
        self.told.append(Told(self._clock.now(), goal, outcome))

    def _budget(self, days: int, budget: str, said: str) -> None:
        self._at(days, 10)
        with self._recorder.task(said, task_type="shopping", subject=BUYER) as task:
            task.user(said)
            self._later()
            task.tool_call(
                "search_products",
                arguments={"category": "显示器", "max_price": int(budget)},
                result=[{"name": "27寸 4K", "price": int(budget) - 600}],
                latency_us=180_000,
            )
            task.agent(f"推荐27寸4K显示器，{int(budget) - 600}元，在预算以内。")
            self._later()
            task.user("好的，谢谢。")
            task.outcome("success")
        self._done(said, "success")

    def _expired_card_fails(self) -> None:
        self._at(4, 9)
        goal = "Pay the hosting invoice."
        with self._recorder.task(goal, task_type="payment", subject="user:sam", task_id="pay-hosting-invoice") as task:
            task.user(goal)
            self._later()
            task.tool_call(
                "pay",
                arguments={"method": "card"},
                error_code="CARD_EXPIRED",
                error_message="the card on file has expired",
            )
            self._later()
            task.tool_call(
                "pay",
                arguments={"method": "card"},
                error_code="CARD_EXPIRED",
                error_message="the card on file has expired",
            )
            task.agent("I could not pay the invoice: the card was refused twice.")
            task.outcome("failure", "the invoice was not paid")
        self._done(goal, "failure")

    def _expired_card_is_solved(self) -> None:
        self._at(3, 9)
        goal = "Please pay the hosting invoice."
        with self._recorder.task(goal, task_type="payment", subject="user:sam", task_id="pay-hosting-invoice") as task:
            task.user(goal)
            self._later()
            task.tool_call(
                "pay",
                arguments={"method": "card"},
                error_code="CARD_EXPIRED",
                error_message="the card on file has expired",
            )
            self._later()
            task.tool_call("list_payment_methods", arguments={}, result=["card", "bank_transfer"])
            self._later()
            task.tool_call("pay", arguments={"method": "bank_transfer"}, result={"status": "paid"})
            task.agent("Paid by bank transfer, since the card on file has expired.")
            task.outcome("success")
        self._done(goal, "success")

    def _rate_is_retried(self) -> None:
        self._at(3, 14)
        goal = "What is 200 euros in yen?"
        with self._recorder.task(goal, task_type="exchange_rate") as task:
            task.user(goal)
            self._later()
            task.tool_call(
                "get_rate", arguments={"pair": "EUR/JPY"}, error_code="TIMEOUT", error_message="no answer in 5 s"
            )
            self._later()
            task.tool_call(
                "get_rate", arguments={"pair": "EUR/JPY"}, result={"rate": 171.2}, retries=1, latency_us=900_000
            )
            task.agent("200 euros are 34,240 yen.")
            task.outcome("success")
        self._done(goal, "success")

    def _weather_fails(self) -> None:
        self._at(3, 16)
        goal = "明天上海的天气怎么样？"
        with self._recorder.task(goal, task_type="weather") as task:
            task.user(goal)
            for _ in range(2):
                self._later()
                task.tool_call(
                    "get_weather",
                    arguments={"city": "上海"},
                    error_code="TIMEOUT",
                    error_message="connection timed out",
                )
            task.agent("暂时查不到天气。")
            task.outcome("failure", "天气服务超时")
        self._done(goal, "failure")

    def _no_direct_flight(self) -> None:
        self._at(2, 11)
        goal = "Find a flight from Oslo to Porto on Friday."
        with self._recorder.task(goal, task_type="travel", subject="user:ada") as task:
            task.user(goal)
            self._later()
            task.tool_call("get_profile", arguments={"user": "ada"}, result={"home": "Oslo"})
            self._later()
            task.tool_call("search_direct", arguments={"from": "OSL", "to": "OPO"}, result=[])
            self._later()
            task.tool_call(
                "search_onestop", arguments={"from": "OSL", "to": "OPO"}, result=[{"via": "FRA", "price": 240}]
            )
            self._later()
            task.tool_call("hold_seat", arguments={"via": "FRA"}, result={"status": "held"})
            task.agent("There is no direct flight; I hold one by way of Frankfurt for 240 euros.")
            task.outcome("success")
        self._done(goal, "success")

    def _wrong_seat(self) -> None:
        self._at(2, 15)
        goal = "帮我选个座位，我喜欢靠窗的座位。"
        with self._recorder.task(goal, task_type="travel", subject=BUYER) as task:
            task.user(goal)
            self._later()
            task.tool_call("choose_seat", arguments={"seat": "aisle"}, result={"seat": "12C"})
            task.agent("已为您选好12C。")
            self._later()
            task.user("不对，我要的是靠窗的，重新选。")
            self._later()
            task.tool_call("choose_seat", arguments={"seat": "window"}, result={"seat": "12A"})
            task.agent("已改为12A，靠窗。")
            task.feedback("不对，我要的是靠窗的，重新选。", score=-1)
            task.outcome("partial", "第一次选错了座位")
        self._done(goal, "partial")

    def _late_parcel(self) -> None:
        self._at(0, 9, 12)
        goal = "我的快递三天了还没到，订单号84213，怎么回事？"
        with self._recorder.task(goal, task_type="logistics", subject=CUSTOMER, conversation_id="morning") as task:
            task.user(goal)
            self._later()
            task.tool_call(
                "get_order", arguments={"order": "84213"}, result={"status": "滞留", "where": "杭州分拨中心"}
            )
            task.agent("订单84213滞留在杭州分拨中心，已催促，预计明天送达。")
            self._later()
            task.user("好吧，我等等看。")
            task.outcome("partial", "已催促，等待送达")
        self._done(goal, "partial")
