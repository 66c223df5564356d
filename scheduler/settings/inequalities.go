package settings

import (
	"fmt"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// inequality is a relation between times that the protocol needs. The sentence gives the
// reason. For a setting, the sentence also says how to change the setting.
type inequality struct {
	holds    bool
	sentence string
}

// inequalities are all relations that docs/protocol.md needs, in the order of the rules, and the
// bounds of settings that are times. Every relation has a line. Some lines compare only constants.
func (c Config) inequalities() []inequality {
	says := fmt.Sprintf
	return []inequality{
		{timing.ClockLife > 10*timing.BeatInterval, "a clock must be followed while some announcements of its node fail"},
		{timing.NodeLife > 2*timing.BeatInterval, "a node must count as alive when one announcement fails"},
		{timing.IOTimeout > timing.CommandLife, "somebody must still wait for the answer to a command that is carried out"},
		{timing.OvertakenLife > timing.CommandLife, "the tombstone of an end must outlive the create that the end has overtaken"},
		{c.TombLife > max(timing.CommandLife, timing.AnswerLimit, timing.OvertakenLife), says("tombstone life %v: want more than %v, since a tombstone must outlive all earlier writes", c.TombLife, timing.OvertakenLife)},
		{timing.YoungFor >= timing.RepairDelay+timing.AnswerLimit+timing.CommandLife, "a repair may bring an earlier version so long after its write"},
		{timing.YoungFor >= timing.LostTail, "a shard may return without its last writes, and with an earlier version"},
		{timing.YoungLife > timing.YoungFor, "the tombstone of a young version must outlive all arrivals of the version"},
		{timing.YoungLife > timing.QuietTime, "a shard that restarted must still find tombstones once the shard fires again"},
		{timing.QuietTime >= c.Sending(c.Renew), says("callback limit %v: want at most %v, since a shard that lost firing marks is quiet for as long", c.Limit, timing.QuietTime)},
		{c.PollInterval >= 10*time.Millisecond, says("poll interval %v: want at least 10ms, since each poll is a call to each shard", c.PollInterval)},
		{c.Grace >= 5*c.PollInterval, says("poll interval %v: want at most a fifth of the lease grace %v, since a lease must last until its callback", c.PollInterval, c.Grace)},
		{c.Grace > timing.SlotWait, says("lease grace %v: want more than %v, since a claim waits for a slot as long", c.Grace, timing.SlotWait)},
		{c.Hold >= c.Limit+timing.SettleTime, says("hold %v: want at least the callback limit %v and %v to settle, since nobody may take over a callback that may still start", c.Hold, c.Limit, timing.SettleTime)},
		{c.Skew.Min > 0 && c.Skew.Max >= c.Skew.Min, says("skew from %v to %v: want a positive range, since no two copies may come due at one instant", c.Skew.Min, c.Skew.Max)},
		{c.Skew.Min > c.Horizon(), says("poll interval %v: polls claim %v ahead; want less than the shortest skew %v, since a leased backup can't get another rank", c.PollInterval, c.Horizon(), c.Skew.Min)},
		{timing.AnswerLife < timing.SilentAfter, "an earlier answer must count for nothing once other nodes do without the shard"},
		{timing.DialTimeout+timing.IOTimeout < timing.LateAskPatience, "a comparison must have time to connect over a slow link"},
		{timing.TellPatience < timing.LateTellPatience, "a shard that answers late must be given more time"},
		{timing.LateTellPatience < timing.SettleTime, "an outcome must be told and settled before the lease ends"},
		{timing.RepairDelay > c.Sending(c.Renew), says("callback limit %v: want less than %v, since a missing copy is made anew by then and tells of no callback any more", c.Limit, timing.RepairDelay)},
		{2*timing.RoundPatience < timing.AnswerLimit, "a second round of writes must fit into the time for an answer"},
		{timing.RecallPatience+timing.RoundPatience <= timing.AnswerLimit, "a round of writes must fit in after the question for earlier creates"},
		{c.IdempotencyLife >= timing.AnswerLimit, says("idempotency life %v: want at least %v, since an answer may take as long before the create is repeated", c.IdempotencyLife, timing.AnswerLimit)},
		{c.AwayLimit >= 10*time.Second, says("away limit %v: want at least 10s, since a shard that restarts must not be rebuilt elsewhere", c.AwayLimit)},
		{timing.IOTimeout < timing.SilentAfter, "one call without an answer must not make a shard silent"},
		{timing.LateMargin > timing.LateTellPatience, "a claim that is put off must hear the outcome of the other copy first"},
		{timing.LeftToOthers > timing.BeatInterval+timing.LookInterval+timing.OverduePatience, "another node must have time to find a pop that is left to that node"},
		{timing.NonOwnerTombLife > timing.CommandLife, "a tombstone on a shard that is no owner must outlive earlier writes to the shard"},
		{timing.AnnouncedFor > timing.BlindFor+timing.FollowInterval, "each node must know of a change, or refuse writes, before the change counts"},
		{timing.DrainedFor > timing.BlindFor, "a node that has not heard of a drain must write nothing to the shard by the time of its removal"},
		{timing.LockLife >= 10*timing.TopologyPatience, "a change of the topology takes several rounds, and must end before its lock"},
		{timing.SweepDelay > timing.BlindFor, "no node may write by the former topology once the sweep begins"},
		{timing.AnnouncedFor > timing.BlindFor+timing.CopyPatience, "no page may be swept by the former topology once a change counts"},
		{timing.DueSoon > timing.CopyPatience, "no timer that was read may be over before the page of the sweep is written"},
		{timing.DoubtFor > 3*timing.RepairDelay+2*timing.AnswerLimit, "a write and all tries of its repair must be over before a difference is an alarm"},
		{store.MinSiteDelay > c.Sending(c.Renew), says("callback limit %v: want less than %v, since the copies of the next site come due so much later", c.Limit, store.MinSiteDelay)},
		{timing.TouchLife > timing.BeatInterval, "a reading of another site's marks must count until the next reading"},
		{timing.TouchLife < c.Limit, says("callback limit %v: want more than %v, since a callback must begin so long after the marks of other sites were read", c.Limit, timing.TouchLife)},
		{timing.FillDelay > c.Sending(c.Renew)+timing.CommandLife, says("callback limit %v: want less than %v, since a site that lost all timers is filled by then", c.Limit, timing.FillDelay-timing.CommandLife)},
	}
}
