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
	// BlindScheduler is true if the scheduler may not read the GPUReservations of the cluster.
	BlindScheduler bool
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
var comma = phrase.Of(", ")

// fence is the policy that prevents a scheduler that has lost its lease from binding pods.
const fence = "g8s-fence"

// Examine makes all checks, in the order in which to fix their failures.
func Examine(f Facts) []Check {
	checks := []Check{f.server(), f.clock()}
	checks = append(checks, f.rights()...)
	checks = append(checks, f.priorityClasses(), f.scheduler(), f.fence())
	if check, ok := f.controller(); ok {
		checks = append(checks, check)
	}
	if check, ok := f.reservations(); ok {
		checks = append(checks, check)
	}
	if check, ok := f.ledger(); ok {
		checks = append(checks, check)
	}
	return append(checks, f.podGroups(), f.namespaces(),
		f.ready(), f.pools(), f.schedulers(), f.devicePlugin(), f.health(), f.inventories(), f.slots(), f.labels())
}

func (f *Facts) server() Check {
	return Check{Name: "API server", Status: OK, Text: phrase.Of("it answers, version %s", f.Server)}
}

// mostSkew is the clock difference from which ages and leases look wrong. The server reports whole seconds.
const mostSkew = 5 * time.Second

func (f *Facts) clock() Check {
	skew := f.Local.Sub(f.Now).Abs().Truncate(time.Second)
	if !f.ClockTold || skew <= mostSkew {
		return Check{Name: "clock", Status: OK, Text: phrase.Of("this machine and the API server agree")}
	}
	return Check{
		Name: "clock", Status: Warning, Text: phrase.Of("this machine and the API server are %s apart", skew),
		Advice: phrase.Of("ages and waiting times are wrong by that: synchronise the clocks, for example with chrony"),
	}
}

func (f *Facts) rights() []Check {
	var missing, own []phrase.Text
	for _, right := range f.Rights {
		text := phrase.Of("%s (%s %s)", phrase.Template(right.For, nil), right.Verb, right.Kind)
		switch {
		case right.Allowed:
		case right.All:
			missing = append(missing, text)
		default:
			own = append(own, text)
		}
	}
	namespace := Check{Name: "your rights in the namespace", Status: OK, Text: phrase.Of("you may do all that gpuctl does with jobs")}
	if len(own) > 0 {
		namespace.Status, namespace.Text = Failed, phrase.Of("you may not %s", phrase.Join(own, comma))
		namespace.Advice = phrase.Of("ask the administrators for a role with these rights in the namespace, such as edit")
	}
	cluster := Check{Name: "your rights in the cluster", Status: OK, Text: phrase.Of("you may read nodes and the pods of all namespaces")}
	if len(missing) > 0 {
		cluster.Status, cluster.Text = Warning, phrase.Of("you may not %s", phrase.Join(missing, comma))
		cluster.Advice = phrase.Of("jobs run without it, but gpuctl why, queue and top know less: ask for a cluster role that reads nodes and pods")
	}
	return []Check{namespace, cluster}
}

// unread is the check of a part that may not be read.
func (f *Facts) unread(name string, part snapshot.Part) (Check, bool) {
	if f.Has(part) {
		return Check{}, false
	}
	return Check{Name: name, Status: Unknown, Text: phrase.Of("you may not read %s", part.Says()), Advice: phrase.Of("ask an administrator to run gpuctl doctor")}, true
}

func (f *Facts) priorityClasses() Check {
	if check, unread := f.unread("priority classes", snapshot.PartPriorityClasses); unread {
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
			Name: "priority classes", Status: Failed, Text: phrase.Of("missing: %s; pods of such jobs are refused", strings.Join(missing, ", ")),
			Advice: phrase.Of("install them: kubectl apply -k manifests/scheduler"),
		}
	}
	return Check{Name: "priority classes", Status: OK, Text: phrase.Of("all three are there")}
}

func (f *Facts) scheduler() Check {
	const name = "scheduler"
	if check, unread := f.unread(name, snapshot.PartLease); unread {
		return check
	}
	advice := phrase.Of("see why it is down: kubectl -n kube-system get pods -l app.kubernetes.io/name=%s", names.SchedulerName)
	switch leader := f.Leader(); leader.State {
	case snapshot.NeverLed:
		return Check{
			Name: name, Status: Failed, Text: phrase.Of("no gpu-scheduler has ever led in this cluster, so no job is placed"),
			Advice: phrase.Of("install it: kubectl apply -k manifests/scheduler"),
		}
	case snapshot.NobodyLeads:
		return Check{Name: name, Status: Failed, Text: phrase.Of("no replica leads, so no job is placed"), Advice: advice}
	case snapshot.LeaderDead:
		return Check{
			Name: name, Status: Failed, Advice: advice,
			Text: phrase.Of("its leader %s was last heard of %s ago, so no job is placed", leader.Name, leader.Silent.Truncate(time.Second)),
		}
	case snapshot.LeaderLate:
		return Check{
			Name: name, Status: Warning, Advice: phrase.Of("ask again in some seconds: if no standby leads by then, %s", advice),
			Text: phrase.Of("its leader %s was last heard of %s ago, and its lease of %s has run out: no job is placed until a standby takes over",
				leader.Name, leader.Silent.Truncate(time.Second), leader.Lease),
		}
	default:
		return Check{Name: name, Status: OK, Text: phrase.Of("%s leads", leader.Name)}
	}
}

func (f *Facts) fence() Check {
	const name = "fence"
	if check, unread := f.unread(name, snapshot.PartPolicies); unread {
		return check
	}
	if !slices.Contains(f.Policies, fence) || !slices.Contains(f.Bindings, fence) {
		return Check{
			Name: name, Status: Warning, Text: phrase.Of("the policy that fences a scheduler off which has lost its lease is not installed"),
			Advice: phrase.Of("install it, or two schedulers may give one GPU away: kubectl apply -k manifests/policy"),
		}
	}
	return Check{Name: name, Status: OK, Text: phrase.Of("a scheduler that has lost its lease cannot place pods")}
}

// groupPodGroup is the API that jobs of several nodes need.
const groupPodGroup = "scheduling.x-k8s.io/v1alpha1"

func (f *Facts) podGroups() Check {
	if !slices.Contains(f.Groups, groupPodGroup) {
		return Check{
			Name: "PodGroup CRD", Status: Warning, Text: phrase.Of("it is not installed, so jobs of several nodes cannot be created"),
			Advice: phrase.Of("install it: kubectl apply -k manifests/crds"),
		}
	}
	return Check{Name: "PodGroup CRD", Status: OK, Text: phrase.Of("jobs of several nodes can be created")}
}
