package phase

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/reason"
)

const (
	// SettleTime is how long a gang evicts no further pods after an eviction, until its victims are seen to leave.
	SettleTime = 2 * time.Second
	// BaseBackoff is how long a gang does not search for victims again, either after an eviction in vain or while the basis of the last search
	// holds.
	BaseBackoff = time.Minute
	// MaxBackoff is the longest backoff after an eviction that did not let the gang start.
	MaxBackoff = time.Hour
	// FirstWriteRetry is the delay before the first retry after a failed write. It doubles each time, up to BaseBackoff.
	FirstWriteRetry = time.Second
)

// preempting is what is known of the evictions for a gang.
type preempting struct {
	// departuresUntil is until when victims are expected to leave for the gang. writesPending says that evictions for it are being written.
	departuresUntil time.Time
	writesPending   bool
	// hasEvicted says that pods were evicted for the gang since its last failure. preemptionBackoff is its backoff after evictions in vain, and
	// backoffReason what would have kept it out all the same, "" for nothing.
	hasEvicted        bool
	preemptionBackoff Backoff
	backoffReason     string
	// unhelpfulBasis is the basis on which no eviction helps, and unhelpfulUntil how long that counts.
	unhelpfulBasis Basis
	unhelpfulUntil time.Time
	// protectionReason says why victims may not leave for the gang yet, "" if they may. isUntimed says that no timer activates the gang when
	// that may be over.
	protectionReason string
	isUntimed        bool
	// writeBackoff is the backoff after failed writes for the gang; zero after a successful one.
	writeBackoff Backoff
}

// Backoff is a time until which something is not tried, and its length, which doubles.
type Backoff struct {
	Until    time.Time
	Duration time.Duration
}

// GrowBackoff begins the next backoff: twice as long as the last one, within bounds.
func (b *Backoff) GrowBackoff(least, most time.Duration, now time.Time) {
	b.Duration = min(max(least, 2*b.Duration), most)
	b.Until = now.Add(b.Duration)
}

// AwaitsDepartures reports whether victims are about to leave for a gang.
func (g Gang) AwaitsDepartures(now time.Time) bool {
	return g.writesPending || now.Before(g.departuresUntil)
}

// PreemptionHold returns whether a gang backs off from preemption, and why. The reason is "" if none needs to be shown.
func (g Gang) PreemptionHold(now time.Time) (holds bool, why string) {
	if !now.Before(g.preemptionBackoff.Until) {
		return false, ""
	}
	return true, g.backoffReason
}

// RecordEvictions records that victims leave for a gang. It evicts no further pods for the settle time.
func (g *Gang) RecordEvictions(now time.Time) {
	g.departuresUntil, g.hasEvicted, g.backoffReason, g.protectionReason = now.Add(SettleTime), true, "", ""
}

// PausePreemption sets the time until which a gang evicts no pods.
func (g *Gang) PausePreemption(until time.Time) { g.preemptionBackoff.Until = until }

// BackOffPreemption records that another plugin rejected a member. If pods were already evicted for the gang, preemption backs off, longer each
// time: the same obstacle would keep the gang out again. The gang keeps the freed places for the settle time, because its members may only have
// been tried in an order that the other plugin does not accept.
func (g *Gang) BackOffPreemption(now time.Time) {
	if !g.hasEvicted {
		return
	}
	g.preemptionBackoff.GrowBackoff(BaseBackoff, MaxBackoff, now)
	g.hasEvicted = false
}

// MarkUnhelpful records that no eviction could make room for a gang on the basis of its last verdict, until a time. Budgets, volumes and the pods
// that may not be evicted can change without a change of a node. Pods that another plugin would keep out are not checked earlier. protection
// says which pods may not leave yet, and isUntimed that it is unknown when they may.
func (g *Gang) MarkUnhelpful(until time.Time, why, protection string, isUntimed bool) {
	g.unhelpfulBasis, g.unhelpfulUntil, g.protectionReason, g.isUntimed = g.verdict.On, until, protection, isUntimed
	if g.backoffReason = why; why != "" {
		g.preemptionBackoff.Until = until
	}
}

// IsUnhelpful reports whether no eviction could make room for a gang on the basis of its last verdict.
func (g Gang) IsUnhelpful(now time.Time) bool {
	return g.unhelpfulBasis == g.verdict.On && g.unhelpfulBasis != (Basis{}) && now.Before(g.unhelpfulUntil)
}

// ProtectionReason returns why victims of a gang may not leave yet, "" if they may.
func (g Gang) ProtectionReason() string { return g.protectionReason }

// ProtectionRetry returns when the backoff of a gang with protected victims ends; zero if no timer is to activate it then.
func (g Gang) ProtectionRetry() time.Time {
	if g.protectionReason == "" || g.isUntimed {
		return time.Time{}
	}
	if g.preemptionBackoff.Until.After(g.unhelpfulUntil) {
		return g.preemptionBackoff.Until
	}
	return g.unhelpfulUntil
}

// BeginWrites records that evictions for a gang are being written. While a slow API server takes its time, no further pods are evicted.
func (g *Gang) BeginWrites() { g.writesPending = true }

// EndWrites records that all writes for a gang are done. It takes some time until its victims are seen to leave.
func (g *Gang) EndWrites(now time.Time) {
	if g.writeBackoff, g.writesPending = (Backoff{}), false; g.hasEvicted {
		g.departuresUntil = now.Add(SettleTime)
	}
}

// BackOffWrites records a failed write for a gang, and returns when it is retried.
func (g *Gang) BackOffWrites(now time.Time) time.Time {
	g.writeBackoff.GrowBackoff(FirstWriteRetry, BaseBackoff, now)
	g.departuresUntil, g.hasEvicted, g.writesPending = g.writeBackoff.Until, false, false
	return g.writeBackoff.Until
}

// WriteBackoff returns the length of the backoff after failed writes, zero after a successful one.
func (g Gang) WriteBackoff() time.Duration { return g.writeBackoff.Duration }

// CancelPreemption records that the preemption of a gang was cancelled, because the gang would not start.
func (g *Gang) CancelPreemption() {
	g.departuresUntil, g.hasEvicted, g.writesPending = time.Time{}, false, false
}

// RecordLostPlace records that a pod of a gang lost its place, and returns until when the gang evicts nothing, and the message. A running
// backoff is not extended: the gang is only tried in free places during that time.
func (g *Gang) RecordLostPlace(pod types.UID, words string, now time.Time) (until time.Time, message string) {
	if g.preemptionBackoff.Duration == 0 || !now.Before(g.preemptionBackoff.Until) {
		g.preemptionBackoff.GrowBackoff(BaseBackoff, MaxBackoff, now)
	}
	g.hasEvicted, g.lostPlace.pod = false, pod
	g.backoffReason = placeRefused(g.preemptionBackoff, words)
	return g.preemptionBackoff.Until, g.backoffReason
}

// RestoreBackoff restores the backoff that another leader wrote on a pod, if this process has none of its own.
func (g *Gang) RestoreBackoff(pod types.UID, backoff Backoff, words string) {
	if g.preemptionBackoff.Duration > 0 {
		return
	}
	g.preemptionBackoff, g.lostPlace.pod, g.backoffReason = backoff, pod, placeRefused(backoff, words)
}

func placeRefused(backoff Backoff, words string) string {
	return reason.PlaceRefused.Text.FormatText(backoff.Until.UTC().Format(time.RFC3339), backoff.Duration.String(), words)
}

// LostPod returns the pod of a gang that last lost its place, "" for none.
func (g Gang) LostPod() types.UID { return g.lostPlace.pod }

// LostPlaceReason returns why a gang evicts nothing since a pod of it lost its place, "" if that is not so.
func (g Gang) LostPlaceReason(now time.Time) string {
	if g.lostPlace.pod == "" || !now.Before(g.preemptionBackoff.Until) {
		return ""
	}
	return g.backoffReason
}

// ShortenBackoff shortens the backoff of a gang to one minute since a pod of it was refused, and returns its end; the zero time if that pod was
// not the refused one.
func (g *Gang) ShortenBackoff(pod types.UID) time.Time {
	if g.lostPlace.pod != pod || pod == "" {
		return time.Time{}
	}
	g.preemptionBackoff.Until = earlierTime(g.preemptionBackoff.Until, g.preemptionBackoff.Until.Add(BaseBackoff-g.preemptionBackoff.Duration))
	g.lostPlace.until = earlierTime(g.lostPlace.until, g.preemptionBackoff.Until)
	return g.preemptionBackoff.Until
}

// HoldBackStart holds back the start of a released gang, one of whose members is refused, until its preemption backoff ends.
func (g *Gang) HoldBackStart() {
	if g.lostPlace.pod != "" {
		g.lostPlace.until = g.preemptionBackoff.Until
	}
}

// clearPreemptionBackoff clears the preemption backoff of a gang: the refused pod is known to have a place now.
func (g *Gang) clearPreemptionBackoff() {
	if g.preemptionBackoff.Duration > 0 {
		g.preemptionBackoff = Backoff{}
	}
	g.hasEvicted, g.backoffReason, g.lostPlace = false, "", lostPlace{}
}
