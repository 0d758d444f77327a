package spot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// joinFirst is the delay before the next purchase after a machine failed to join. It doubles with each failure, up to joinMost.
	joinFirst = 5 * time.Minute
	joinMost  = 4 * time.Hour
	// mostUnproven bounds the machines in progress before the first one of a recipe has joined.
	mostUnproven = maxOrders
)

// joinFor is how long a machine may take to become a ready node.
func (p *planner) joinFor() time.Duration {
	return time.Duration(secondsOr(p.spec.JoinSeconds, 900)) * time.Second
}

// recipeHash returns a hash of the settings that machines are made from.
func recipeHash(spec *g8s.SpotPoolSpec) string {
	text, _ := json.Marshal(struct { // plain values always marshal
		Template    g8s.MachineTemplate
		JoinSeconds *int32
	}{spec.Template, spec.JoinSeconds})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// forgetChanged resets failures of another spec or other Secrets, so that a change is tried at once. Whether machines join depends only on their
// recipe: a change of the size proves nothing.
func (p *planner) forgetChanged() {
	status := &p.plan.Status
	if status.Joining == nil {
		status.Joining = &g8s.SpotJoining{}
	}
	if isChanged(p.facts.Pool, p.facts.Secrets) {
		status.Failures, status.RetryAfter, status.Offers = 0, nil, nil
	}
	made := recipeHash(p.spec)
	switch {
	case status.Joining.Recipe != made:
		status.Joining = &g8s.SpotJoining{Recipe: made}
	case !slices.Equal(status.ObservedSecrets, p.facts.Secrets):
		status.Joining = &g8s.SpotJoining{Recipe: made, LastJoined: status.Joining.LastJoined}
	}
}

// recordJoined records that a machine became a ready node, and thus that machines of its offer do.
func (p *planner) recordJoined(m *g8s.SpotMachine) {
	joining := p.plan.Status.Joining
	*joining = g8s.SpotJoining{Recipe: joining.Recipe, LastJoined: m.JoinedAt, Offers: slices.DeleteFunc(joining.Offers, func(o g8s.UnjoinedOffer) bool {
		return o.InstanceType == m.InstanceType && o.Zone == m.Zone
	})}
}

// failedToJoin records that a machine did not become a ready node. If later machines did, the failure says nothing about them.
func (p *planner) failedToJoin(m *g8s.SpotMachine, halted bool) {
	joining := p.plan.Status.Joining
	if !slices.ContainsFunc(p.machines, func(other g8s.SpotMachine) bool {
		return other.InstanceType == m.InstanceType && other.Zone == m.Zone && other.JoinedAt != nil && other.JoinedAt.After(m.Requested.Time)
	}) {
		p.avoidOffer(offer{m.InstanceType, m.Zone})
	}
	if joining.LastJoined != nil && joining.LastJoined.After(m.Requested.Time) {
		return
	}
	joining.LastJoined, joining.Reason = nil, p.notJoinedReason(m, halted)
	if joining.RetryAfter == nil || !joining.RetryAfter.After(p.facts.Now) { // simultaneous failures count once
		joining.Failures = min(joining.Failures+1, maxFailures)
		joining.RetryAfter = ptr.To(metav1.NewTime(p.facts.Now.Add(backOff(joining.Failures, joinFirst, joinMost))))
	}
}

// avoidOffer records that machines of a type in a zone do not join.
func (p *planner) avoidOffer(where offer) {
	joining := p.plan.Status.Joining
	i := p.unjoinedIndex(where)
	if i < 0 {
		joining.Offers = append(joining.Offers, g8s.UnjoinedOffer{InstanceType: where.instanceType, Zone: where.zone})
		i = len(joining.Offers) - 1
	}
	failed := &joining.Offers[i]
	if !failed.RetryAfter.After(p.facts.Now) {
		failed.Failures = min(failed.Failures+1, maxFailures)
		failed.RetryAfter = metav1.NewTime(p.facts.Now.Add(backOff(failed.Failures, joinFirst, joinMost)))
	}
}

// unjoinedIndex returns the index of a type and zone among the offers whose machines do not join, -1 if they do.
func (p *planner) unjoinedIndex(where offer) int {
	return slices.IndexFunc(p.plan.Status.Joining.Offers, func(o g8s.UnjoinedOffer) bool {
		return o.InstanceType == where.instanceType && o.Zone == where.zone
	})
}

// notJoinedReason returns why a machine did not become a ready node, as far as the cluster shows it.
func (p *planner) notJoinedReason(m *g8s.SpotMachine, halted bool) string {
	after := int(p.joinFor().Seconds())
	if halted {
		return fmt.Sprintf("machine %s (%s, %s in %s) was shut down before it was a ready node", m.Name, m.Instance, m.InstanceType, m.Zone)
	}
	if i := slices.IndexFunc(p.plan.Refused, func(node RefusedNode) bool { return node.Instance == m.Instance }); i >= 0 {
		refused := p.plan.Refused[i]
		return fmt.Sprintf("machine %s (%s, %s in %s) was no ready node after %d s: node %s is not taken for it: %s",
			m.Name, m.Instance, m.InstanceType, m.Zone, after, refused.Name, refused.Why)
	}
	if node := p.nodes[m.Name]; node != nil {
		return fmt.Sprintf("machine %s (%s, %s in %s) was no ready node after %d s: node %s is not ready",
			m.Name, m.Instance, m.InstanceType, m.Zone, after, node.Name)
	}
	return fmt.Sprintf("machine %s (%s, %s in %s) was no ready node after %d s: no kubelet registered its node",
		m.Name, m.Instance, m.InstanceType, m.Zone, after)
}

// joinRetryIn returns how long purchases pause because the last machines did not join.
func (p *planner) joinRetryIn() time.Duration {
	if after := p.plan.Status.Joining.RetryAfter; after != nil {
		return after.Sub(p.facts.Now)
	}
	return 0
}

// joiningOffer returns the type and zone to buy, "" if there is none now, and how long until there may be one. If machines do not join at all, offers
// with the fewest failures go first; otherwise the preferred ones do.
func (p *planner) joiningOffer() (instanceType, zone string, left time.Duration) {
	offers, left := p.availableOffers()
	failures := func(where offer) int32 {
		if i := p.unjoinedIndex(where); i >= 0 {
			return p.plan.Status.Joining.Offers[i].Failures
		}
		return 0
	}
	if p.plan.Status.Joining.Failures > 0 {
		slices.SortStableFunc(offers, func(a, b offer) int { return int(failures(a) - failures(b)) })
	}
	for _, where := range offers {
		if p.maxToTry(where.instanceType, where.zone) > 0 {
			return where.instanceType, where.zone, 0
		}
	}
	return "", "", left
}

// maxToTry returns how many machines of a type in a zone may be bought now, given whether they join. Only machines that the cloud has confirmed count
// as in progress.
func (p *planner) maxToTry(instanceType, zone string) int {
	coming, comingThere := 0, 0
	proven := p.plan.Status.Joining.LastJoined != nil
	for _, m := range p.liveMachines() {
		switch {
		case m.JoinedAt != nil:
			proven = true
		case m.Instance != "":
			coming++
			if m.InstanceType == instanceType && m.Zone == zone {
				comingThere++
			}
		}
	}
	most := int(p.spec.Maximum)
	switch {
	case p.plan.Status.Joining.Failures > 0:
		most = 1 - p.countStarting()
	case !proven:
		most = mostUnproven - coming
	}
	if i := p.unjoinedIndex(offer{instanceType, zone}); i >= 0 {
		if p.plan.Status.Joining.Offers[i].RetryAfter.After(p.facts.Now) {
			return 0
		}
		most = min(most, 1-comingThere)
	}
	return max(0, most)
}

// joinCondition returns the condition of whether machines become ready nodes.
func (p *planner) joinCondition() metav1.Condition {
	joining := p.plan.Status.Joining
	out := metav1.Condition{Type: g8s.ConditionMachinesJoin, Status: metav1.ConditionTrue, Reason: "Joined", Message: "machines become ready nodes"}
	switch {
	case joining.Failures > 0:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, g8s.LeavingNeverJoined, joining.Reason
		if joining.Failures > 1 {
			out.Message += fmt.Sprintf("; that was so %d times in a row", joining.Failures)
		}
		if joining.RetryAfter.After(p.facts.Now) {
			out.Message += fmt.Sprintf("; the next machine is bought at %s", joining.RetryAfter.UTC().Format(time.RFC3339))
		} else {
			out.Message += "; one machine at a time is tried"
		}
	case len(joining.Offers) > 0:
		var where []string
		for _, offer := range joining.Offers {
			where = append(where, offer.InstanceType+" in "+offer.Zone)
		}
		out.Message = "machines become ready nodes, but not those of " + strings.Join(where, ", ")
	case joining.LastJoined == nil && p.plan.Status.Joined == 0:
		out.Status, out.Reason, out.Message = metav1.ConditionUnknown, "NoneYet", "no machine has become a ready node yet"
	}
	return out
}
