// Package doctor examines whether a cluster is fit to run jobs: what has to be installed, what has to be running, what the user may do, and what is
// probably a mistake, such as a label with a typo. [Examine] is pure: facts in, checks out, each with what to do next.
package doctor

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Status is the outcome of a check.
type Status string

const (
	// OK is as it should be.
	OK Status = "ok"
	// Warning means that it works, but not for everything or for every user.
	Warning Status = "warning"
	// Failed keeps jobs from running.
	Failed Status = "failed"
	// Unknown could not be checked: the user lacks the right.
	Unknown Status = "unknown"
)

// Check is one thing that was examined. JSON keys are a contract.
type Check struct {
	// Name is in English; a catalogue may know it.
	Name   string      `json:"name"`
	Status Status      `json:"status"`
	Text   phrase.Text `json:"text"`
	// Advice is what to do next, empty if all is well.
	Advice phrase.Text `json:"advice,omitempty"`
}

// Facts are examined: nodes and their pods, namespaces, priority classes, the scheduler's lease, and other known data.
type Facts struct {
	// Namespaces are all namespaces, or the user's if the user may read no other.
	snapshot.Snapshot
	// Server is the version of the API server, and Local this machine's clock when the server reported its time.
	Server string
	Local  time.Time
	// Groups are the API groups with their versions, such as scheduling.x-k8s.io/v1alpha1.
	Groups []string
	// Rights are what the user may do.
	Rights []Right
	// Namespace is the user's.
	Namespace string
	// Policies and Bindings are the names of the ValidatingAdmissionPolicies and of their bindings.
	Policies, Bindings []string
	// Controller is the lease of gpu-controller, nil for none; NoController is true if it may not be read.
	Controller   *coordinationv1.Lease
	NoController bool
	// Manager is the lease of kube-controller-manager, nil for none.
	Manager *coordinationv1.Lease
	// SchedulerLacksRights is true if the scheduler may not read the GPUReservations of the cluster.
	SchedulerLacksRights bool
	// Ledger is the result of querying the ledger, nil if it was not queried.
	Ledger *Ledger
}

// Right is something that gpuctl needs.
type Right struct {
	// For is what requires the right, such as "submit jobs".
	For     string
	Verb    string
	Group   string
	Kind    string // the resource, such as jobs or pods/log
	All     bool   // in all namespaces
	Allowed bool
}

// comma is between two of several.
var comma = phrase.Textf(", ")

// fencePolicy is the policy that prevents a scheduler that has lost its lease from binding pods.
const fencePolicy = "g8s-fence"

// Examine makes all checks, in the order in which to fix their failures.
func Examine(f Facts) []Check {
	checks := []Check{f.checkServer(), f.checkClock()}
	checks = append(checks, f.checkRights()...)
	checks = append(checks, f.checkPriorityClasses(), f.checkScheduler(), f.checkFence())
	checks = append(checks, f.checkManager())
	if check, ok := f.checkController(); ok {
		checks = append(checks, check)
	}
	if check, ok := f.checkReservations(); ok {
		checks = append(checks, check)
	}
	if check, ok := f.checkLedger(); ok {
		checks = append(checks, check)
	}
	return append(checks, f.checkPodGroups(), f.checkNamespaces(),
		f.checkNodesReady(), f.checkPools(), f.checkOtherSchedulers(), f.checkUnheardSchedulers(), f.checkDevicePlugin(), f.checkGPUHealth(), f.checkInventories(), f.checkSlots(), f.checkTypes(), f.checkNodeLabels())
}

func (f *Facts) checkServer() Check {
	return Check{Name: "API server", Status: OK, Text: phrase.Textf("it answers, version %s", f.Server)}
}

// maxClockSkew is the clock difference from which ages and leases look wrong. The server reports whole seconds.
const maxClockSkew = 5 * time.Second

func (f *Facts) checkClock() Check {
	skew := f.Local.Sub(f.Now).Abs().Truncate(time.Second)
	if !f.ClockTold || skew <= maxClockSkew {
		return Check{Name: "clock", Status: OK, Text: phrase.Textf("this machine and the API server agree")}
	}
	return Check{
		Name: "clock", Status: Warning, Text: phrase.Textf("this machine and the API server are %s apart", skew),
		Advice: phrase.Textf("ages and waiting times are wrong by that: synchronise the clocks, for example with chrony"),
	}
}

func (f *Facts) checkRights() []Check {
	var missing, own []phrase.Text
	for _, right := range f.Rights {
		text := phrase.Textf("%s (%s %s)", phrase.FromTemplate(right.For, nil), right.Verb, right.Kind)
		switch {
		case right.Allowed:
		case right.All:
			missing = append(missing, text)
		default:
			own = append(own, text)
		}
	}
	namespace := Check{Name: "your rights in the namespace", Status: OK, Text: phrase.Textf("you may do all that gpuctl does with jobs")}
	if len(own) > 0 {
		namespace.Status, namespace.Text = Failed, phrase.Textf("you may not %s", phrase.Join(own, comma))
		namespace.Advice = phrase.Textf("ask the administrators for a role with these rights in the namespace, such as edit")
	}
	cluster := Check{Name: "your rights in the cluster", Status: OK, Text: phrase.Textf("you may read nodes and the pods of all namespaces")}
	if len(missing) > 0 {
		cluster.Status, cluster.Text = Warning, phrase.Textf("you may not %s", phrase.Join(missing, comma))
		cluster.Advice = phrase.Textf("jobs run without it, but gpuctl why, queue and top know less: ask for a cluster role that reads nodes and pods")
	}
	return []Check{namespace, cluster}
}

// checkUnread is the check of a part that may not be read.
func (f *Facts) checkUnread(name string, part snapshot.Part) (Check, bool) {
	if f.HasPart(part) {
		return Check{}, false
	}
	return Check{Name: name, Status: Unknown, Text: phrase.Textf("you may not read %s", part.Says()), Advice: phrase.Textf("ask an administrator to run gpuctl doctor")}, true
}

func (f *Facts) checkPriorityClasses() Check {
	if check, unread := f.checkUnread("priority classes", snapshot.PartPriorityClasses); unread {
		return check
	}
	var missing []string
	for _, name := range []string{names.PriorityClassHigh, names.PriorityClassMedium, names.PriorityClassLow} {
		if !slices.ContainsFunc(f.PriorityClasses, func(c schedulingv1.PriorityClass) bool { return c.Name == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return Check{
			Name: "priority classes", Status: Failed, Text: phrase.Textf("missing: %s; pods of such jobs are refused", strings.Join(missing, ", ")),
			Advice: phrase.Textf("install them: kubectl apply -k manifests/scheduler"),
		}
	}
	return Check{Name: "priority classes", Status: OK, Text: phrase.Textf("all three are there")}
}

func (f *Facts) checkScheduler() Check {
	const name = "scheduler"
	if check, unread := f.checkUnread(name, snapshot.PartLease); unread {
		return check
	}
	advice := phrase.Textf("see why it is down: kubectl -n kube-system get pods -l app.kubernetes.io/name=%s", names.SchedulerName)
	switch leader := f.Leader(); leader.State {
	case snapshot.NeverLed:
		return Check{
			Name: name, Status: Failed, Text: phrase.Textf("no gpu-scheduler has ever led in this cluster, so no job is placed"),
			Advice: phrase.Textf("install it: kubectl apply -k manifests/scheduler"),
		}
	case snapshot.NobodyLeads:
		return Check{Name: name, Status: Failed, Text: phrase.Textf("no replica leads, so no job is placed"), Advice: advice}
	case snapshot.LeaderDead:
		return Check{
			Name: name, Status: Failed, Advice: advice,
			Text: phrase.Textf("its leader %s was last heard of %s ago, so no job is placed", leader.Name, leader.Silent.Truncate(time.Second)),
		}
	case snapshot.LeaderLate:
		return Check{
			Name: name, Status: Warning, Advice: phrase.Textf("ask again in some seconds: if no standby leads by then, %s", advice),
			Text: phrase.Textf("its leader %s was last heard of %s ago, and its lease of %s has run out: no job is placed until a standby takes over",
				leader.Name, leader.Silent.Truncate(time.Second), leader.Lease),
		}
	default:
		return Check{Name: name, Status: OK, Text: phrase.Textf("%s leads", leader.Name)}
	}
}

func (f *Facts) checkFence() Check {
	const name = "fence"
	if check, unread := f.checkUnread(name, snapshot.PartPolicies); unread {
		return check
	}
	if !slices.Contains(f.Policies, fencePolicy) || !slices.Contains(f.Bindings, fencePolicy) {
		return Check{
			Name: name, Status: Warning, Text: phrase.Textf("the policy that fences a scheduler off which has lost its lease is not installed"),
			Advice: phrase.Textf("install it, or two schedulers may give one GPU away: kubectl apply -k manifests/policy"),
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Textf("a scheduler that has lost its lease cannot place pods")}
}

// groupPodGroup is the API that jobs of several nodes need.
const groupPodGroup = "scheduling.x-k8s.io/v1alpha1"

func (f *Facts) checkPodGroups() Check {
	if !slices.Contains(f.Groups, groupPodGroup) {
		return Check{
			Name: "PodGroup CRD", Status: Warning, Text: phrase.Textf("it is not installed, so jobs of several nodes cannot be created"),
			Advice: phrase.Textf("install it: kubectl apply -k manifests/crds"),
		}
	}
	return Check{Name: "PodGroup CRD", Status: OK, Text: phrase.Textf("jobs of several nodes can be created")}
}
