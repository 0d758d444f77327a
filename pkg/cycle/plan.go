package cycle

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
)

const planKey fwk.StateKey = "GangPlan"

// GangPlan is the decision by which members of a gang are bound together, for the plugin that binds. All members share it. The zero value
// belongs to a gang that has not been admitted yet.
type GangPlan struct {
	mu      sync.Mutex
	at      time.Time
	members int
}

// SetDecision records when so many members were admitted together.
func (p *GangPlan) SetDecision(at time.Time, members int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.members = at, members
}

// AnnotationText is the text of a plan on each of its Bindings, "" before it is decided. No two plans of a gang have the same text.
func (p *GangPlan) AnnotationText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", p.at.UTC().Format(time.RFC3339Nano), p.members)
}

// Clone implements fwk.StateData. Several cycles share a plan.
func (p *GangPlan) Clone() fwk.StateData { return p }

// WritePlan stores a plan in the state of a cycle.
func WritePlan(cs fwk.CycleState, p *GangPlan) { cs.Write(planKey, p) }

// ReadPlanText returns the text of the plan in the state of a cycle, "" for a pod that is bound by itself.
func ReadPlanText(cs fwk.CycleState) string {
	p, err := Read[*GangPlan](cs, planKey)
	if err != nil {
		return ""
	}
	return p.AnnotationText()
}

// MembersOf parses how many members were admitted by a plan, 0 for an invalid text.
func MembersOf(text string) int {
	_, count, _ := strings.Cut(text, "/")
	members, err := strconv.Atoi(count)
	if err != nil || members < 1 {
		return 0
	}
	return members
}
