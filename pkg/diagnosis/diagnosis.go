// Package diagnosis finds out why a job does not run, or why it runs where it does, and what to change. It is one
// pure function, [Diagnose], over what a user can read of the cluster: the job, its pods and events, the nodes and who
// is on them, and the scheduler's own records where they can be had.
//
// The scheduler's verdict is the authority on what it alone knows, such as volumes and affinity between pods. What
// it cannot say in one short message is computed here with the same code that it decides with, pkg/gpu: which pool
// has the type, which node is nearest, and who holds what is missing.
package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Facts are what a diagnosis is made from.
type Facts struct {
	Job inventory.JobDetail
	// Pods are those of the job.
	Pods []corev1.Pod
	// Cluster is what lies around the job, as [Around] names it: its pods are those that hold a place on a node.
	Cluster snapshot.Snapshot
	// Others are the jobs of the namespace of a job that starts after some of them; nil for every other job.
	Others []inventory.Job
	// Preemptors are pods for which some of the job had to leave, as far as they are still there.
	Preemptors []corev1.Pod
	// Space is what of the job's namespace, and of what it refers to, decides whether its pods are let in; nil where it was
	// not read.
	Space *snapshot.Snapshot
	// Records are the scheduler's own, by pod; empty where they cannot be had.
	Records []explain.Record
	// Simulated says that the pods are not in the cluster, so that no scheduler has to look at them.
	Simulated bool
}

// Record adds those of a scheduler's records that are of the job's pods, and not of pods of the same name before them.
func (f *Facts) Record(records []explain.Record) {
	for _, record := range records {
		if slices.ContainsFunc(f.Pods, func(pod corev1.Pod) bool { return pod.UID == record.UID }) {
			f.Records = append(f.Records, record)
		}
	}
}

// unknownSpace is a namespace of which nothing was read.
var unknownSpace = snapshot.Snapshot{Unread: []snapshot.Part{
	snapshot.PartNamespace, snapshot.PartQuotas, snapshot.PartLimitRanges, snapshot.PartClaims, snapshot.PartPriorityClasses, snapshot.PartPodGroups,
	snapshot.PartDeviceClaims, snapshot.PartDevices,
}}

// seesNodes reports whether the user may read nodes and who is on them.
func (f *Facts) seesNodes() bool {
	return f.Cluster.Has(snapshot.PartNodes) && f.Cluster.Has(snapshot.PartAllPods)
}

// priorityClasses are those there are, as far as that was read.
func (f *Facts) priorityClasses() []schedulingv1.PriorityClass {
	if f.Space == nil {
		return nil
	}
	return f.Space.PriorityClasses
}

// Report is the answer. JSON keys are a contract.
type Report struct {
	Job       string           `json:"job"`
	Namespace string           `json:"namespace"`
	Kind      string           `json:"kind"`
	Status    inventory.Status `json:"status"`
	// Pod is the one that was looked at, "" when none exists.
	Pod string `json:"pod,omitempty"`
	// Cause is the first finding's: what to mend first.
	Cause reason.Cause `json:"cause"`
	// Findings are all that stands against the job, what matters most first. Empty for a job that runs.
	Findings []Finding `json:"findings,omitempty"`
	// NearMisses are the nodes that lack the fewest GPUs.
	NearMisses []NearMiss `json:"nearMisses,omitempty"`
	// Placements tell where the pods of the job are, and on which cards.
	Placements []Placement `json:"placements,omitempty"`
	// Segments are where the parts of a job lie that is divided into such, as far as the nodes may be read.
	Segments []inventory.Segment `json:"segments,omitempty"`
	// Verdict is what the scheduler wrote on the pod, in its own words.
	Verdict string `json:"verdict,omitempty"`
	// Unread says what the user may not read, so that the answer is less exact.
	Unread []snapshot.Part `json:"unread,omitempty"`
	// Records are the scheduler's own.
	Records []explain.Record `json:"records,omitempty"`
}

// Finding is one thing that stands against a job.
type Finding struct {
	Cause reason.Cause `json:"cause"`
	// Says is the sentence for people, and Text and Parts are made of it: Text in English, Parts for programs that have
	// their own words.
	Says phrase.Text `json:"-"`
	// Text says in a sentence what it is, with the numbers.
	Text string `json:"text"`
	// Parts are the sentence as templates with their values.
	Parts []phrase.Part `json:"parts,omitempty"`
	// Nodes is the number of nodes it concerns, 0 when it concerns the job itself.
	Nodes int `json:"nodes,omitempty"`
	// Examples are some of these nodes.
	Examples []string `json:"examples,omitempty"`
	// States are what controllers make of the first of these nodes, by code and parameters.
	States []nodestate.State `json:"states,omitempty"`
	// Never says that the job would not start if the nodes were empty either.
	Never bool `json:"-"`
	// Steps are what to do: alternatives, the best first.
	Steps []Step `json:"steps,omitempty"`
	// Advice is the steps in words, each a sentence.
	Advice []string `json:"advice,omitempty"`
}

// NearMiss is a node that nearly has the GPUs, and who holds the others.
type NearMiss struct {
	explain.NearMiss
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is who holds GPUs of a node.
type Holder struct {
	Namespace string `json:"namespace"`
	// Job is the job's name; for a pod that belongs to none, Pod is the pod's.
	Job  string `json:"job,omitempty"`
	Pod  string `json:"pod,omitempty"`
	GPUs int64  `json:"gpus"`
	// Priority is high, medium or low, or the name of another priority class; "" if the pod has none.
	Priority string `json:"priority,omitempty"`
	// Ending says that the pod was told to end.
	Ending bool `json:"ending,omitempty"`
}

// Diagnose finds out why a job is where it is.
func Diagnose(f Facts) Report {
	if f.Space == nil {
		f.Space = &unknownSpace
	}
	report := Report{
		Job: f.Job.Name, Namespace: f.Job.Namespace, Kind: f.Job.Kind, Status: f.Job.Status,
		Unread: f.Cluster.Unread, Records: f.Records, Placements: placements(&f), Segments: f.Job.Segments,
	}
	pod := concerned(f.Pods)
	if pod != nil {
		report.Pod = pod.Name
		if pod.Spec.NodeName == "" && !isSettled(f.Job.Status) {
			report.Verdict = verdictOn(pod)
		}
	}
	report.Findings, report.NearMisses = explained(&f, pod)
	for i := range report.Findings {
		report.Findings[i] = report.Findings[i].Worded()
	}
	if slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Cause == reason.SchedulerDown }) {
		report.Verdict = "" // what it said before is not so now
	}
	switch {
	case len(report.Findings) > 0:
		report.Cause = report.Findings[0].Cause
	case f.Job.Status == inventory.StatusRunning:
		report.Cause = reason.Running
	default:
		report.Cause = reason.Unknown
	}
	if silent, ok := notTold(&f.Job); ok {
		report.Findings = append(report.Findings, silent.Worded())
	}
	return report
}

// explained collects all that stands against a job. First comes what has to be mended first: what keeps its pods from
// being there, then what keeps anybody from looking at them, then what keeps them from a node, then from running.
func explained(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	job := &f.Job
	switch {
	case isClosing(f):
		return one(closing(f)), nil
	case isSettled(job.Status):
		return one(settled(job)), nil
	case job.Reason == inventory.ReasonIncomplete:
		return one(incomplete(job)), nil
	case job.Reason == inventory.ReasonWaitsForJobs:
		return one(waitsForJobs(f)), nil
	case job.QuotaBehind != "":
		return one(behindGang(job)), nil
	}
	lost := slices.Concat(lostNodes(f), brokenGPUs(f), toldToLeave(f))
	switch {
	case job.RunsWhole():
		return lost, nil
	case job.Status != inventory.StatusRunning && retries(f, pod):
		return append(lost, retrying(job)), nil
	case pod == nil:
		return uncreated(f, lost)
	case pod.Spec.NodeName == "":
		return withoutNode(f, pod, lost)
	case len(lost) > 0:
		return lost, nil
	}
	kept := keptOut(f)
	if isReady(pod) && explains(kept, job) {
		return kept, nil // every pod that is there runs
	}
	return append(kept, notStarted(f, pod)...), nil
}

// explains reports whether what keeps pods out is all there is to say of a job whose pods run: of an array others come.
func explains(kept []Finding, job *inventory.JobDetail) bool {
	return len(kept) > 0 || job.Status == inventory.StatusRunning
}

func isReady(pod *corev1.Pod) bool {
	return conditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// uncreated explains a job none of whose pods will run: those that it has are leaving, or it has none.
func uncreated(f *Facts, lost []Finding) ([]Finding, []NearMiss) {
	out := slices.Concat(lost, keptOut(f))
	if left, ok := leaving(f); ok && len(lost) == 0 {
		return append(out, left), nil // what room there is shows when they have left
	}
	if len(out) == 0 {
		out = one(notCreated(f))
	}
	template := podOf(f)
	if template == nil || f.Job.Desired > 1 {
		return out, nil
	}
	// What is refused now has to find a node as well.
	s, err := newSearch(f, template)
	if err != nil || !f.seesNodes() {
		return out, nil
	}
	also, _ := s.explain("")
	return append(out, standing(also)...), nil
}

// withoutNode explains a pod that no node has been found for.
func withoutNode(f *Facts, pod *corev1.Pod, lost []Finding) ([]Finding, []NearMiss) {
	out, misses := unplaced(f, pod)
	if asideFirst, ok := pushedAside(f); ok {
		if asideFirst.holds && len(out) > 0 && slices.Contains([]reason.Cause{reason.Busy, reason.Fragmented}, out[0].Cause) {
			asideFirst.Steps = out[0].Steps
			out = slices.Insert(out, 0, asideFirst.Finding)
		} else {
			out = append(out, asideFirst.Finding)
		}
	}
	return slices.Concat(lost, keptOut(f), out), misses
}

// standing leaves out of what stands against nodes that there is room.
func standing(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Cause == reason.RoomNow || f.Cause == reason.WaitingForTurn })
}

// concerned returns the pod to look at: one without a node, on which the scheduler has spoken if there is such a one,
// else one that does not run.
func concerned(pods []corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for i := range pods {
		if rank(&pods[i]) > 0 && (best == nil || rank(&pods[i]) > rank(best)) {
			best = &pods[i]
		}
	}
	return best
}

// rank says how much a pod tells of why the job does not run, 0 for nothing.
func rank(pod *corev1.Pod) int {
	switch {
	case !lives(pod):
		return 0
	case pod.Spec.NodeName == "" && verdictOn(pod) != "" && !isStale(pod):
		return 5
	case pod.Spec.NodeName == "" && verdictOn(pod) != "":
		return 4
	case pod.Spec.NodeName == "":
		return 3
	case !isReady(pod):
		return 2
	}
	return 1
}

func verdictOn(pod *corev1.Pod) string { return conditionOf(pod, corev1.PodScheduled).Message }

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// span says how long something takes or took.
func span(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// since says when something was: the time of day where the reader is, and how long ago.
func (f *Facts) since(at time.Time) phrase.Text {
	if at.IsZero() {
		return phrase.Of("at a time that is not known")
	}
	ago := f.Cluster.Now.Sub(at)
	if ago >= 24*time.Hour {
		return phrase.Of("%s ago", span(ago))
	}
	return phrase.Of("at %s, %s ago", at.In(f.Cluster.Now.Location()).Format("15:04"), span(ago))
}
