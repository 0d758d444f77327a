package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// describeDeclared writes what the GPUPool of a pool says.
func describeDeclared(d *description, declared *inventory.Declared, now time.Time) {
	status := declared.Status
	if declared.Stale() {
		d.sentence("Note", "what follows from the GPUPool as it is now has not been written yet: is gpu-controller running?")
	}
	d.line("Free sets", freeSets(status.FreeSets))
	d.line("Waiting", pendingSentence(status.Pending, now))
	for _, condition := range status.Conditions {
		d.sentence(conditionLabel(condition.Type), conditionSentence(condition, now))
	}
	if advice := status.Advice; advice != nil {
		d.sentence("Advice", advice.Text)
		d.sentence("Tried", adviceReasoning(advice, now))
	}
	d.line("Must have", mustHave(declared.Spec.Constraints))
	d.sentence("Only for", onlyFor(declared.Spec.Access))
	if timeout := declared.Spec.Defaults.IdleAfter(); timeout > 0 {
		d.sentence("Idle jobs", fmt.Sprintf("are paused after %s, but for services, and jobs that say otherwise", age(now, now.Add(-timeout))))
	}
	d.sentence("Preemption", protection(declared.Spec.Defaults))
	d.sentence("Checkpoints", politeness(declared.Spec.Defaults))
	if lines := constraintLines(declared.Spec.Constraints); len(lines) > 0 {
		d.section("A node must")
		for _, line := range lines {
			d.text(indent+escaped(line), len(indent))
		}
	}
}

// protection is for how long the pods of a pool are not preempted, "" where nothing is said of it.
func protection(defaults names.PoolDefaults) string {
	of := defaults.MinRuntimes()
	switch {
	case of.Most == 0 && cmp.Or(defaults.MinRuntime, defaults.MaxMinRuntime) != "":
		return "no pod has a min-runtime"
	case of.Default > 0:
		return fmt.Sprintf("pods run for %s before, and for at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	case of.Most > 0:
		return "pods run for at most " + workload.DurationText(of.Most) + " before, if their job asks for it"
	}
	return ""
}

// politeness is how long the pods of a pool have to save their work before they are preempted, "" where nothing is said of it.
func politeness(defaults names.PoolDefaults) string {
	of := defaults.CheckpointGraces()
	switch {
	case cmp.Or(defaults.CheckpointGrace, defaults.MaxCheckpointGrace) == "":
		return ""
	case of.Most == 0:
		return "no pod has time to save its work before"
	case of.Default > 0:
		return fmt.Sprintf("pods have %s to save their work before, and at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	}
	return fmt.Sprintf("pods have at most %s to save their work before, if their job asks for it", workload.DurationText(of.Most))
}

func freeSets(sets []names.FreeSet) string {
	out := make([]string, len(sets))
	for i, set := range sets {
		out[i] = fmt.Sprintf("%d of %d", set.Count, set.Size)
	}
	return strings.Join(out, ", ")
}

func pendingSentence(pending names.PendingDemand, now time.Time) string {
	if pending.Jobs == 0 {
		return ""
	}
	out := fmt.Sprintf("%s with %s", plural(int(pending.Jobs), "job"), plural(int(pending.GPUs), "GPU"))
	if pending.Since != nil {
		out += fmt.Sprintf(", the first for %s", age(now, pending.Since.Time))
	}
	return out
}

// conditionLabel is short enough for a label.
func conditionLabel(kind string) string {
	if kind == names.ConditionNodesAdmitted {
		return "Admitted"
	}
	return kind
}

func conditionSentence(condition metav1.Condition, now time.Time) string {
	return fmt.Sprintf("%s for %s: %s", condition.Status, age(now, condition.LastTransitionTime.Time), condition.Message)
}

// adviceReasoning says what the advice was tried with.
func adviceReasoning(advice *names.CapacityAdvice, now time.Time) string {
	var tried []string
	for _, option := range advice.Options {
		tried = append(tried, fmt.Sprintf("%s start %s", plural(int(option.Nodes), "node"), plural(int(option.Jobs), "job")))
	}
	out := fmt.Sprintf("%s ago with the scheduler's own code", age(now, advice.AsOf.Time))
	if advice.Template != "" {
		out += ", on nodes like " + advice.Template
	}
	if len(tried) > 0 {
		out += ": " + strings.Join(tried, ", ")
	}
	return out
}

// constraintLines are the constraints of a pool, a line each.
func constraintLines(c names.PoolConstraints) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(c.GPUTypes) > 0 {
		add("have GPUs of type %s", strings.Join(c.GPUTypes, " or "))
	}
	least := c.MinNode
	if least.GPUs != nil {
		add("offer %s or more", plural(int(*least.GPUs), "GPU"))
	}
	if least.GPUMemory != nil {
		add("have %s or more on each GPU", least.GPUMemory)
	}
	if least.CPU != nil {
		add("offer %s of CPU or more", least.CPU)
	}
	if least.Memory != nil {
		add("offer %s of memory or more", least.Memory)
	}
	if len(c.Regions) > 0 {
		add("be in region %s", strings.Join(c.Regions, " or "))
	}
	if len(c.Zones) > 0 {
		add("be in zone %s", strings.Join(c.Zones, " or "))
	}
	return out
}

// onlyFor is who may use a pool, "" for everybody.
func onlyFor(access names.PoolAccess) string {
	var out []string
	if len(access.Namespaces) > 0 {
		out = append(out, "namespaces "+strings.Join(access.Namespaces, ", "))
	}
	if len(access.Priorities) > 0 {
		out = append(out, "priorities "+joined(access.Priorities))
	}
	return strings.Join(out, "; ")
}

// mustHave is what a pool must have to be available.
func mustHave(c names.PoolConstraints) string {
	var out []string
	if c.MinHealthyNodes != nil {
		out = append(out, plural(int(*c.MinHealthyNodes), "node")+" that take pods")
	}
	if c.MinZones != nil {
		out = append(out, fmt.Sprintf("nodes in %d zones", *c.MinZones))
	}
	return strings.Join(out, ", ")
}
