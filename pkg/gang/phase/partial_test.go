package phase

import (
	"testing"
	"time"
)

// TestDecideRelease plays attempts of members that find no place, by seconds after the first.
func TestDecideRelease(t *testing.T) {
	half := Part{IsHalf: true}
	awaiting := func(seconds int) Part {
		return Part{IsHalf: true, AwaitedUntil: noon.Add(time.Duration(seconds) * time.Second)}
	}
	type attempt struct {
		at     int
		part   Part
		change func(*Gang)
		ends   bool
		next   NextAttempt
	}
	after := func(seconds int, reason Reason) NextAttempt {
		return NextAttempt{At: noon.Add(time.Duration(seconds) * time.Second), Reason: reason}
	}
	refuse := func(seconds int) func(*Gang) {
		return func(g *Gang) { g.RecordRefusal(noon.Add(time.Duration(seconds) * time.Second)) }
	}
	for name, attempts := range map[string][]attempt{
		"it ends after its time": {
			{at: 0, part: half, next: after(5, BoundInPart)},
			{at: 3, part: half, next: after(5, BoundInPart)},
			{at: 5, part: half, ends: true},
		},
		"members that hold places do not extend its time": {
			{at: 0, part: half, change: hold(1), next: after(5, BoundInPart)},
			{at: 5, part: half, ends: true},
		},
		"it does not end while others are being bound": {
			{at: 0, part: half, change: pass(1), next: after(5, BoundInPart)},
			{at: 6, part: half, next: after(7, BoundInPart)},
			{at: 7, part: half, change: pass(-1), ends: true},
		},
		"its time begins anew after a lost member was waited for": {
			{at: 0, part: half, next: after(5, BoundInPart)},
			{at: 4, part: awaiting(20), next: after(5, BoundInPart)},
			{at: 20, part: half, next: after(20, MemberEnds)},
			{at: 25, part: half, ends: true},
		},
		"its time begins anew after pods left for it": {
			{at: 0, part: half, next: after(5, BoundInPart)},
			{at: 4, part: half, change: func(g *Gang) { g.RecordEvictions(noon.Add(4 * time.Second)) }, next: after(5, BoundInPart)},
			{at: 8, part: half, next: after(13, BoundInPart)},
		},
		"its time begins anew with the first refusal": {
			{at: 0, part: half, next: after(5, BoundInPart)},
			{at: 4, part: half, change: refuse(4), next: after(9, BoundInPart)},
			{at: 8, part: half, change: refuse(8), next: after(9, BoundInPart)},
			{at: 9, part: half, change: refuse(9), ends: true},
		},
		"its time begins anew after all had places": {
			{at: 0, part: half, next: after(5, BoundInPart)},
			{at: 6, part: half, change: (*Gang).RecordSuccess, next: after(11, BoundInPart)},
			{at: 11, part: half, ends: true},
		},
		"places after a refusal do not extend its time": {
			{at: 0, part: half, change: refuse(0), next: after(5, BoundInPart)},
			{at: 5, part: half, change: (*Gang).RecordSuccess, ends: true},
		},
		"a gang that is not half keeps its members": {
			{at: 0, part: Part{}},
			{at: 60, part: Part{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := Gang{Bound: 1}
			for _, a := range attempts {
				if a.change != nil {
					a.change(&g)
				}
				now := noon.Add(time.Duration(a.at) * time.Second)
				if ends := g.DecideRelease(a.part, now); ends != a.ends {
					t.Errorf("after %d seconds it ends: %t", a.at, ends)
				}
				if next := g.EarliestAttempt(); !a.ends && next != a.next {
					t.Errorf("after %d seconds it is tried next at %v, want %v", a.at, next, a.next)
				}
			}
		})
	}
}

// TestAPlaceAloneMakesNoGangWhole: a Binding may still be refused.
func TestAPlaceAloneMakesNoGangWhole(t *testing.T) {
	g := Gang{Bound: 2}
	g.RecordBound("a", 2, false)
	g.MoveMember(BoundStage, NoPlace)
	g.RecordLostMember(2)
	g.MoveMember(NoPlace, PassedStage)
	if g.RecordSuccess(); !g.IsPartial() {
		t.Error("whole, with a member that is being bound")
	}
	g.MoveMember(PassedStage, BoundStage)
	if g.RecordBound("b", 2, false); g.IsPartial() {
		t.Error("partially bound, with all members")
	}
}

// TestALossBeforeIsKnown, unless the gang is seen whole.
func TestALossBeforeIsKnown(t *testing.T) {
	var part, whole Gang
	part.RecordEarlierLoss()
	part.Bound = 1
	if !part.IsPartial() || part.IsPartialForLong(noon) || !part.IsPartialForLong(noon.Add(CompleteWithin)) {
		t.Error("not partially bound, or not from the first member that is made again on")
	}
	whole.Bound = 2
	whole.RecordBound("a", 2, false)
	if whole.RecordEarlierLoss(); whole.IsPartial() {
		t.Error("partially bound, though it was seen whole")
	}
}
