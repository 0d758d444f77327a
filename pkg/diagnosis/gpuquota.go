package diagnosis

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// quotaShares is the request of a job for whole GPUs of a pool with GPUQuotas.
type quotaShares struct {
	facts *Facts
	pod   *corev1.Pod
	// asked are the GPUs that are requested at once: those of one pod, or of all members of a gang without a place.
	asked int64
	types []string
	// single is true if one pod asks for them, so that its job may ask for fewer.
	single bool
}

// roomShortageCauses are the causes that an eviction would resolve.
var roomShortageCauses = []reason.Cause{reason.Busy, reason.Fragmented, reason.GangWaiting}

// withGPUQuotas adds the findings of GPUQuotas for a pod, by their current usage as far as the user may see it.
func withGPUQuotas(f *Facts, pod *corev1.Pod, out []Finding) []Finding {
	s := newQuotaShares(f, pod)
	if s.asked == 0 || hasCause(out, reason.Preempting) {
		return out
	}
	room := hasCause(out, roomShortageCauses...)
	var beyond []Finding
	for _, q := range inventory.BuildGPUQuotas(&f.Cluster) {
		switch {
		case !s.countsTowardQuota(&q) || q.Used == nil:
		case s.exceedsMax(&q):
			if s.mayNotDoWithout(&q) {
				return append(singleFinding(s.explainMaxReached(&q)), withoutCause(out, reason.GPUQuotaReached)...)
			}
		case q.Min == 0 || !room:
		case s.asked > q.Min-*q.Used:
			beyond = append(beyond, s.explainBeyondGuarantee(&q))
		case *q.Lent > 0:
			return append(singleFinding(s.explainLentGPUs(&q)), out...) // one that guarantees it is enough
		default:
			room = false // they are guaranteed to it, and unused
		}
	}
	if !room {
		return out
	}
	return append(slices.Clone(out), beyond...)
}

// exceedsMax reports whether the request exceeds a quota that has a maximum and a known usage.
func (s *quotaShares) exceedsMax(q *inventory.GPUQuota) bool {
	return q.Max != nil && s.asked > *q.Max-*q.Used
}

func hasCause(out []Finding, causes ...reason.Cause) bool {
	return slices.ContainsFunc(out, func(f Finding) bool { return slices.Contains(causes, f.Cause) })
}

// withoutCause returns the findings with other causes.
func withoutCause(out []Finding, cause reason.Cause) []Finding {
	return slices.DeleteFunc(slices.Clone(out), func(f Finding) bool { return f.Cause == cause })
}

// knowsGPUQuotas reports whether there are GPUQuotas, as far as is known.
func (f *Facts) knowsGPUQuotas() bool {
	return f.Cluster.HasPart(snapshot.PartGPUQuotas) && len(f.Cluster.GPUQuotas) > 0
}

// newQuotaShares is a pod's request against GPUQuotas, nil if there are none.
func newQuotaShares(f *Facts, pod *corev1.Pod) *quotaShares {
	if !f.knowsGPUQuotas() {
		return &quotaShares{}
	}
	out := &quotaShares{facts: f, pod: pod, asked: gpuquota.WholeGPUs(pod), single: f.Job.Desired <= 1}
	if types, err := gpu.PodTypes(pod); err == nil {
		out.types = types.Accepted
	}
	if !startsTogether(f, pod) {
		return out
	}
	out.asked = 0
	for _, member := range gangMembers(f, pod) {
		if member.Spec.NodeName == "" {
			out.asked += gpuquota.WholeGPUs(member)
		}
	}
	if len(gangMembers(f, pod)) == 0 { // all of them are still to be created
		out.asked = gpuquota.WholeGPUs(pod) * int64(f.Job.Desired)
	}
	return out
}

// countsTowardQuota reports whether GPUs that the pod may get count toward a quota.
func (s *quotaShares) countsTowardQuota(q *inventory.GPUQuota) bool {
	return q.Pool == gpu.PodPool(s.pod) && slices.Contains(q.Namespaces, s.pod.Namespace) &&
		(q.GPUType == "" || len(s.types) == 0 || slices.Contains(s.types, q.GPUType))
}

// mayNotDoWithout reports whether all GPUs that the pod may get count toward a quota.
func (s *quotaShares) mayNotDoWithout(q *inventory.GPUQuota) bool {
	return q.GPUType == "" || len(s.types) == 1
}

// quotaScopeText names the scope of a quota.
func quotaScopeText(q *inventory.GPUQuota) phrase.Text {
	if q.GPUType != "" {
		return phrase.Textf("%s in pool %s", q.GPUType, q.Pool)
	}
	return phrase.Textf("pool %s", q.Pool)
}

// explainMaxReached explains a quota that is exhausted.
func (s *quotaShares) explainMaxReached(q *inventory.GPUQuota) Finding {
	look := inspectStep(phrase.Textf("see who has how much of it; the administrators set it"), "gpuctl describe quota "+q.Name)
	if s.asked > *q.Max {
		return Finding{Cause: reason.GPUQuotaReached, Never: true,
			Message: phrase.Textf("the namespace may have %d GPUs of %s, and the job asks for %d: it never starts (GPUQuota %s)", *q.Max, quotaScopeText(q), s.asked, q.Name),
			Steps:   append(s.askFewerGPUs(*q.Max, phrase.Textf("ask for at most %s", gpuWord(*q.Max))), look)}
	}
	out := Finding{Cause: reason.GPUQuotaReached,
		Message: phrase.Textf("%d of the %d GPUs of %s that the namespace may have are in use, and the job asks for %d (GPUQuota %s)", *q.Used, *q.Max, quotaScopeText(q), s.asked, q.Name)}
	out.Steps = append(out.Steps, s.quotaUsersStep(q))
	left := *q.Max - *q.Used
	out.Steps = append(out.Steps, s.askFewerGPUs(left, phrase.Textf("ask for at most %s", gpuWord(left)))...)
	out.Steps = append(out.Steps, look)
	return out
}

// quotaUsersStep names the jobs that use the quota, as far as the user may see them. More free nodes do not help.
func (s *quotaShares) quotaUsersStep(q *inventory.GPUQuota) Step {
	var users []*corev1.Pod
	for i := range s.facts.Cluster.Pods {
		pod := &s.facts.Cluster.Pods[i]
		if slices.Contains(q.Namespaces, pod.Namespace) && gpu.PodPool(pod) == q.Pool && gpuquota.WholeGPUs(pod) > 0 && !s.facts.isOwn(pod) {
			users = append(users, pod)
		}
	}
	holders := sumHolders(users)
	if len(holders) == 0 {
		return waitStep("wait until a job ends that counts in this quota, whatever is free on nodes")
	}
	return Step{Action: reason.Wait, Holders: holders, Message: phrase.Textf("wait until a job ends that counts in this quota, whatever is free on nodes: %s", holdersText(holders))}
}

// askFewerGPUs is the step to ask for at most that many GPUs, nil if that is not possible.
func (s *quotaShares) askFewerGPUs(gpus int64, says phrase.Text) []Step {
	if !s.single || gpus <= 0 {
		return nil
	}
	return []Step{{Action: reason.SetField, Field: reason.FieldGPU, Value: strconv.FormatInt(gpus, 10), Message: says}}
}

// explainLentGPUs explains GPUs that other namespaces borrow and that they return to the job.
func (s *quotaShares) explainLentGPUs(q *inventory.GPUQuota) Finding {
	out := Finding{Cause: reason.GPUsLent, Message: phrase.Textf("%d of the %d GPUs of %s that GPUQuota %s guarantees to the namespace are borrowed", *q.Lent, q.Min, quotaScopeText(q), q.Name)}
	if len(q.Borrowers) > 0 {
		out.Message = out.Message.Addf(" by %s", borrowersText(q.Borrowers))
	}
	if problem := q.TrueCondition(names.ConditionMinNotBacked); problem != nil {
		out.Message = out.Message.Addf("; and there are fewer than are guaranteed now: %s", problem.Message)
	}
	out.Steps = append(out.Steps, waitStep("wait: who borrows them leaves for the job by itself, as soon as its min-runtime is over and no PodDisruptionBudget forbids it"))
	out.Steps = append(out.Steps, s.askFewerGPUs(*q.Free, phrase.Textf("ask for at most %s, as many as are free now", gpuWord(*q.Free)))...)
	out.Steps = append(out.Steps, inspectStep(phrase.Textf("see who borrows; if it lasts, ask the administrators"), "gpuctl describe quota "+q.Name))
	return out
}

// maxBorrowers is how many borrowers a sentence names.
const maxBorrowers = 4

// borrowersText names the borrowers in the pool, which may borrow from other quotas as well.
func borrowersText(all []inventory.QuotaBorrower) phrase.Text {
	var parts []phrase.Text
	for _, b := range all[:min(len(all), maxBorrowers)] {
		if len(b.Jobs) > 0 {
			parts = append(parts, phrase.Textf("%s (%d: job %s)", b.Namespace, b.GPUs, strings.Join(b.Jobs, ", ")))
		} else {
			parts = append(parts, phrase.Textf("%s (%d)", b.Namespace, b.GPUs))
		}
	}
	out := phrase.Join(parts, phrase.Textf(", "))
	if more := len(all) - maxBorrowers; more > 0 {
		out = out.Addf(" and %d more namespaces", more)
	}
	return out
}

// explainBeyondGuarantee explains a job that would itself borrow, so that no borrower is evicted for it.
func (s *quotaShares) explainBeyondGuarantee(q *inventory.GPUQuota) Finding {
	left := max(0, q.Min-*q.Used)
	out := Finding{Cause: reason.BeyondGuarantee, Message: phrase.Textf(
		"the namespace has %d of the %d GPUs of %s that GPUQuota %s guarantees, and the job asks for %d: it would borrow, so that nobody leaves for it who borrows",
		*q.Used, q.Min, quotaScopeText(q), q.Name, s.asked)}
	out.Steps = append(out.Steps, s.askFewerGPUs(left, phrase.Textf("ask for at most %s, as many as are guaranteed", gpuWord(left)))...)
	out.Steps = append(out.Steps, waitStep("wait until nodes have room"),
		Step{Action: reason.AskAdministrators, Kind: "GPUQuota", Name: q.Name, Message: phrase.Textf("ask the administrators for a higher min of GPUQuota %s", q.Name)})
	return out
}
