// Package diagnosis finds out why a job does not run, or why it runs where it does, and what to change. It is one pure function, [Diagnose], over
// what a user can read of the cluster: the job, its pods and events, the nodes and the pods on them, and the scheduler's own records where available.
//
// The scheduler's verdict is the authority on what only the scheduler knows, such as volumes and affinity between pods. What does not fit into its
// one short message is computed here with the code that the scheduler decides with, pkg/gpu: which pool has the type, which node is nearest, and
// which pods hold the missing GPUs.
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
	// Cluster is the environment of the job, as read by [ClusterQueries]: its pods are those that hold a place on a node.
	Cluster snapshot.Snapshot
	// Others are the other jobs of the namespace, for a job that starts after some of them; nil for any other job.
	Others []inventory.Job
	// Preemptors are the pods for which pods of the job were evicted, if they still exist.
	Preemptors []corev1.Pod
	// Space is the part of the job's namespace, and of what it refers to, that decides whether its pods are admitted; nil if it was not read.
	Space *snapshot.Snapshot
	// Records are the scheduler's own, by pod; empty where they cannot be had.
	Records []explain.Record
	// Simulated is true if the pods are not in the cluster, so that no scheduler processes them.
	Simulated bool
}

// AddRecords adds those of a scheduler's records that are about the job's pods, and not about earlier pods of the same name.
func (f *Facts) AddRecords(records []explain.Record) {
	for _, record := range records {
		if slices.ContainsFunc(f.Pods, func(pod corev1.Pod) bool { return pod.UID == record.UID }) {
			f.Records = append(f.Records, record)
		}
	}
}

// unknownSpace is a namespace of which no object was read.
var unknownSpace = snapshot.Snapshot{Unread: []snapshot.Part{
	snapshot.PartNamespace, snapshot.PartQuotas, snapshot.PartLimitRanges, snapshot.PartClaims, snapshot.PartPriorityClasses, snapshot.PartPodGroups,
	snapshot.PartDeviceClaims, snapshot.PartDevices,
}}

// seesNodes reports whether the user may read nodes and the pods on them.
func (f *Facts) seesNodes() bool {
	return f.Cluster.HasPart(snapshot.PartNodes) && f.Cluster.HasPart(snapshot.PartAllPods)
}

// priorityClasses returns the priority classes that were read.
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
	// Pod is the examined pod, "" if none exists.
	Pod string `json:"pod,omitempty"`
	// Cause is the cause of the first finding, which is to be fixed first.
	Cause reason.Cause `json:"cause"`
	// Findings list everything that blocks the job, the most important first. It is empty for a job that runs.
	Findings []Finding `json:"findings,omitempty"`
	// NearMisses are the nodes that lack the fewest GPUs.
	NearMisses []NearMiss `json:"nearMisses,omitempty"`
	// Placements lists the nodes and GPUs of the job's pods.
	Placements []Placement `json:"placements,omitempty"`
	// Segments are the domains of the segments of the job, as far as the user may read nodes.
	Segments []inventory.Segment `json:"segments,omitempty"`
	// Verdict is the scheduler's original message on the pod.
	Verdict string `json:"verdict,omitempty"`
	// Unread lists what the user may not read, which makes the answer less exact.
	Unread []snapshot.Part `json:"unread,omitempty"`
	// Records are the scheduler's own.
	Records []explain.Record `json:"records,omitempty"`
}

// Finding is one thing that blocks a job.
type Finding struct {
	Cause reason.Cause `json:"cause"`
	// Message is the sentence for users. Text and Parts are derived from it: Text in English, Parts for programs that have their own wording.
	Message phrase.Text `json:"-"`
	// Text is the finding as a sentence, with the numbers.
	Text string `json:"text"`
	// Parts are the sentence as templates with their values.
	Parts []phrase.Part `json:"parts,omitempty"`
	// Nodes is the number of nodes it concerns, 0 when it concerns the job itself.
	Nodes int `json:"nodes,omitempty"`
	// Examples lists some of these nodes.
	Examples []string `json:"examples,omitempty"`
	// States are the controllers' states of the first of these nodes, by code and parameters.
	States []nodestate.State `json:"states,omitempty"`
	// Never is true if the job could not start even on empty nodes.
	Never bool `json:"-"`
	// Steps are the alternative remedies, the best first.
	Steps []Step `json:"steps,omitempty"`
	// Advice is the text of the steps, each a sentence.
	Advice []string `json:"advice,omitempty"`
}

// NearMiss is a node that nearly has the GPUs, with the holders of the others.
type NearMiss struct {
	explain.NearMiss
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is a job or pod that holds GPUs of a node.
type Holder struct {
	Namespace string `json:"namespace"`
	// Job is the job's name; for a pod that belongs to none, Pod is the pod's.
	Job  string `json:"job,omitempty"`
	Pod  string `json:"pod,omitempty"`
	GPUs int64  `json:"gpus"`
	// Priority is high, medium or low, or the name of another priority class; "" if the pod has none.
	Priority string `json:"priority,omitempty"`
	// Ending is true if the pod is terminating.
	Ending bool `json:"ending,omitempty"`
}

// Diagnose finds out why a job is where it is.
func Diagnose(f Facts) Report {
	if f.Space == nil {
		f.Space = &unknownSpace
	}
	report := Report{
		Job: f.Job.Name, Namespace: f.Job.Namespace, Kind: f.Job.Kind, Status: f.Job.Status,
		Unread: f.Cluster.Unread, Records: f.Records, Placements: jobPlacements(&f), Segments: f.Job.Segments,
	}
	pod := podToExplain(f.Pods)
	if pod != nil {
		report.Pod = pod.Name
		if pod.Spec.NodeName == "" && !isSettled(f.Job.Status) {
			report.Verdict = podVerdict(pod)
		}
	}
	report.Findings, report.NearMisses = explainJob(&f, pod)
	for i := range report.Findings {
		report.Findings[i] = report.Findings[i].WithText()
	}
	if f.Job.Foreign {
		adviseForeign(&report, &f.Job)
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
	if silent, ok := explainFailedNotification(&f.Job); ok {
		report.Findings = append(report.Findings, silent.WithText())
	}
	return report
}

// explainJob collects everything that blocks a job, layer by layer, the most upstream first: what holds the whole job back, what prevents its pods from
// being created, what keeps those with a node from running while they hold GPUs, what keeps the scheduler from the others, and what keeps these off
// nodes.
func explainJob(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	job := &f.Job
	switch {
	case isClosing(f):
		return singleFinding(explainClosingNamespace(f)), nil
	case isSettled(job.Status) && job.Status != inventory.StatusSuspended:
		return singleFinding(explainSettledJob(job)), nil
	}
	held := explainHeldJob(f)
	if len(held) > 0 && (pod == nil || held[0].Cause != reason.Incomplete) {
		return append(held, explainBehindHold(f, held)...), nil
	}
	out, misses := explainPods(f, pod)
	return append(held, out...), misses
}

// explainPods explains the pods of a job that nothing holds back as a whole.
func explainPods(f *Facts, pod *corev1.Pod) ([]Finding, []NearMiss) {
	job := &f.Job
	lost := slices.Concat(lostNodes(f), brokenGPUs(f), explainEvictionNotice(f))
	switch {
	case job.RunsWhole():
		return lost, nil
	case job.Status != inventory.StatusRunning && isAwaitingRetry(f, pod):
		return append(lost, explainRetry(job)), nil
	case pod == nil:
		return explainMissingPods(f, lost)
	case pod.Spec.NodeName == "":
		return explainPodWithoutNode(f, pod, lost)
	case len(lost) > 0:
		return append(lost, explainFailingPods(f, lost)...), nil
	}
	kept := explainRefusedPods(f)
	if isReady(pod) && explainsRunningJob(kept, job) {
		return kept, nil // every pod that is there runs
	}
	return append(kept, explainPlacedPods(f, pod)...), nil
}

// explainsRunningJob reports whether the rejections alone explain a job whose pods run: an array still creates more.
func explainsRunningJob(kept []Finding, job *inventory.JobDetail) bool {
	return len(kept) > 0 || job.Status == inventory.StatusRunning
}

func isReady(pod *corev1.Pod) bool {
	return podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// explainMissingPods explains a job without any pod that will run: it has none, or those that it has are terminating.
func explainMissingPods(f *Facts, lost []Finding) ([]Finding, []NearMiss) {
	out := slices.Concat(lost, explainRefusedPods(f))
	if left, ok := explainTerminatingPods(f); ok && len(lost) == 0 {
		return append(out, left), nil // the available room shows once they are gone
	}
	if len(out) == 0 || isUnobserved(f) {
		out = append(out, explainNotCreated(f))
	}
	return append(out, explainNextPod(f)...), nil // a rejected pod still has to find a node
}

// explainPodWithoutNode explains a pod without a node.
func explainPodWithoutNode(f *Facts, pod *corev1.Pod, lost []Finding) ([]Finding, []NearMiss) {
	out, misses := explainUnplacedPod(f, pod)
	if asideFirst, ok := explainEviction(f); ok {
		if asideFirst.holdsPlace && len(out) > 0 && slices.Contains([]reason.Cause{reason.Busy, reason.Fragmented}, out[0].Cause) {
			asideFirst.Steps = out[0].Steps
			out = slices.Insert(out, 0, asideFirst.Finding)
		} else {
			out = append(out, asideFirst.Finding)
		}
	}
	return slices.Concat(lost, explainRefusedPods(f), explainFailingPods(f, lost), out), misses
}

// withoutRoomNow removes the findings that there is room.
func withoutRoomNow(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Cause == reason.RoomNow || f.Cause == reason.WaitingForTurn })
}

// podToExplain returns the pod to explain: a pod without a node, preferably one with a verdict of the scheduler, else one that does not run.
func podToExplain(pods []corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for i := range pods {
		if explanatoryRank(&pods[i]) > 0 && (best == nil || explanatoryRank(&pods[i]) > explanatoryRank(best)) {
			best = &pods[i]
		}
	}
	return best
}

// explanatoryRank is how much a pod explains why the job does not run, 0 for not at all.
func explanatoryRank(pod *corev1.Pod) int {
	switch {
	case !isActive(pod):
		return 0
	case pod.Spec.NodeName == "" && podVerdict(pod) != "" && !isStale(pod):
		return 5
	case pod.Spec.NodeName == "" && podVerdict(pod) != "":
		return 4
	case pod.Spec.NodeName == "":
		return 3
	case !isReady(pod):
		return 2
	}
	return 1
}

func podVerdict(pod *corev1.Pod) string { return podCondition(pod, corev1.PodScheduled).Message }

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// durationText formats a duration.
func durationText(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// sinceText formats a past time as the local time of day and its age.
func (f *Facts) sinceText(at time.Time) phrase.Text {
	if at.IsZero() {
		return phrase.Textf("at a time that is not known")
	}
	ago := f.Cluster.Now.Sub(at)
	if ago >= 24*time.Hour {
		return phrase.Textf("%s ago", durationText(ago))
	}
	return phrase.Textf("at %s, %s ago", at.In(f.Cluster.Now.Location()).Format("15:04"), durationText(ago))
}
