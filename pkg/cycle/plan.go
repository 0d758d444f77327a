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

// GangPlan is the decision by which members of a gang are bound together, for the plugin that binds. All of them share one. The
// zero value is of a gang that is not let go yet.
type GangPlan struct {
	mu      sync.Mutex
	at      time.Time
	members int
}

// Decide notes when so many members were let go together.
func (p *GangPlan) Decide(at time.Time, members int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.members = at, members
}

// Text is what is written of a plan on each Binding by it, "" before it is decided. No two plans of a gang have the same.
func (p *GangPlan) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", p.at.UTC().Format(time.RFC3339Nano), p.members)
}

// Clone implements fwk.StateData. A plan is of several cycles.
func (p *GangPlan) Clone() fwk.StateData { return p }

// Plan leaves a plan in the state of a cycle.
func Plan(cs fwk.CycleState, p *GangPlan) { cs.Write(planKey, p) }

// Planned returns the text of the plan in the state of a cycle, "" for a pod that is bound by itself.
func Planned(cs fwk.CycleState) string {
	p, err := Read[*GangPlan](cs, planKey)
	if err != nil {
		return ""
	}
	return p.Text()
}

// MembersOf reads of the text of a plan how many members were let go by it, 0 from what is none.
func MembersOf(text string) int {
	_, count, _ := strings.Cut(text, "/")
	members, err := strconv.Atoi(count)
	if err != nil || members < 1 {
		return 0
	}
	return members
}
