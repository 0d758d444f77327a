package cli

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// describeDeclared writes the spec and status of a pool's GPUPool.
func describeDeclared(d *description, declared *inventory.Declared, now time.Time) {
	status := declared.Status
	if declared.Stale() {
		d.sentence("Note", phrase.Of("what follows from the GPUPool as it is now has not been written yet: is gpu-controller running?").In(d.language))
	}
	d.told("Free sets", "%s", freeSets(status.FreeSets))
	d.told("Waiting", "%s", pendingSentence(status.Pending, now))
	for _, condition := range status.Conditions {
		d.sentence(conditionLabel(condition.Type), conditionSentence(condition, now).In(d.language))
	}
	if advice := status.Advice; advice != nil {
		d.says("Advice", phrase.Written(advice.Text))
		d.sentence("Tried", adviceReasoning(advice, now).In(d.language))
	}
	d.told("Must have", "%s", mustHave(declared.Spec.Constraints))
	d.sentence("Only for", onlyFor(declared.Spec.Access).In(d.language))
	if timeout := declared.Spec.Defaults.IdleAfter(); timeout > 0 {
		text := phrase.Of("are paused after %s, but for services, and jobs that say otherwise", age(now, now.Add(-timeout)))
		d.sentence("Idle jobs", text.In(d.language))
	}
	d.sentence("Preemption", protection(declared.Spec.Defaults).In(d.language))
	d.sentence("Checkpoints", politeness(declared.Spec.Defaults).In(d.language))
	if share := declared.Spec.Defaults.GPUShare; share != "" {
		d.told("GPU share", "%s of each GPU, for jobs that do not say it", share)
	}
	if lines := constraintLines(declared.Spec.Constraints); len(lines) > 0 {
		d.section("A node must")
		for _, line := range lines {
			d.text(indent+escaped(line.In(d.language)), len(indent))
		}
	}
}

// protection describes how long the pool's pods are protected from preemption, or "" if the pool does not specify it.
func protection(defaults names.PoolDefaults) phrase.Text {
	of := defaults.MinRuntimes()
	switch {
	case of.Most == 0 && cmp.Or(defaults.MinRuntime, defaults.MaxMinRuntime) != "":
		return phrase.Of("no pod has a min-runtime")
	case of.Default > 0:
		return phrase.Of("pods run for %s before, and for at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	case of.Most > 0:
		return phrase.Of("pods run for at most %s before, if their job asks for it", workload.DurationText(of.Most))
	}
	return nil
}

// politeness describes how long the pool's pods have to save their work before they are preempted, or "" if the pool does not specify it.
func politeness(defaults names.PoolDefaults) phrase.Text {
	of := defaults.CheckpointGraces()
	switch {
	case cmp.Or(defaults.CheckpointGrace, defaults.MaxCheckpointGrace) == "":
		return nil
	case of.Most == 0:
		return phrase.Of("no pod has time to save its work before")
	case of.Default > 0:
		return phrase.Of("pods have %s to save their work before, and at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	}
	return phrase.Of("pods have at most %s to save their work before, if their job asks for it", workload.DurationText(of.Most))
}

func freeSets(sets []names.FreeSet) phrase.Text {
	out := make([]phrase.Text, len(sets))
	for i, set := range sets {
		out[i] = phrase.Of("%d of %d", set.Count, set.Size)
	}
	return phrase.Join(out, phrase.Of(", "))
}

func pendingSentence(pending names.PendingDemand, now time.Time) phrase.Text {
	if pending.Jobs == 0 {
		return nil
	}
	out := phrase.Of("%s with %s", plural(int(pending.Jobs), "job"), plural(int(pending.GPUs), "GPU"))
	if pending.Since != nil {
		out = out.And(", the first for %s", age(now, pending.Since.Time))
	}
	return out
}

// conditionLabel returns a condition type that is short enough for a label.
func conditionLabel(kind string) string {
	if kind == names.ConditionNodesAdmitted {
		return "Admitted"
	}
	return kind
}

func conditionSentence(condition metav1.Condition, now time.Time) phrase.Text {
	return phrase.Of("%s for %s: %s", condition.Status, age(now, condition.LastTransitionTime.Time), phrase.Written(condition.Message))
}

// adviceReasoning says which capacities were simulated for the advice.
func adviceReasoning(advice *names.CapacityAdvice, now time.Time) phrase.Text {
	var tried []phrase.Text
	for _, option := range advice.Options {
		tried = append(tried, phrase.Of("%s start %s", plural(int(option.Nodes), "node"), plural(int(option.Jobs), "job")))
	}
	out := phrase.Of("%s ago with the scheduler's own code", age(now, advice.AsOf.Time))
	if advice.Template != "" {
		out = out.And(", on nodes like %s", advice.Template)
	}
	if len(tried) > 0 {
		out = out.And(": %s", phrase.Join(tried, phrase.Of(", ")))
	}
	return out
}

// constraintLines returns the constraints of a pool, one per line.
func constraintLines(c names.PoolConstraints) []phrase.Text {
	var out []phrase.Text
	add := func(text phrase.Text) { out = append(out, text) }
	if len(c.GPUTypes) > 0 {
		add(phrase.Of("have GPUs of type %s", strings.Join(c.GPUTypes, " or ")))
	}
	least := c.MinNode
	if least.GPUs != nil {
		add(phrase.Of("offer %s or more", plural(int(*least.GPUs), "GPU")))
	}
	if least.GPUMemory != nil {
		add(phrase.Of("have %s or more on each GPU", least.GPUMemory))
	}
	if least.CPU != nil {
		add(phrase.Of("offer %s of CPU or more", least.CPU))
	}
	if least.Memory != nil {
		add(phrase.Of("offer %s of memory or more", least.Memory))
	}
	if len(c.Regions) > 0 {
		add(phrase.Of("be in region %s", strings.Join(c.Regions, " or ")))
	}
	if len(c.Zones) > 0 {
		add(phrase.Of("be in zone %s", strings.Join(c.Zones, " or ")))
	}
	return out
}

// onlyFor says which jobs may use a pool, or "" for all jobs.
func onlyFor(access names.PoolAccess) phrase.Text {
	var out []phrase.Text
	if len(access.Namespaces) > 0 {
		out = append(out, phrase.Of("namespaces %s", strings.Join(access.Namespaces, ", ")))
	}
	if len(access.Priorities) > 0 {
		out = append(out, phrase.Of("priorities %s", joined(access.Priorities)))
	}
	return phrase.Join(out, phrase.Of("; "))
}

// mustHave says what a pool must have to be available.
func mustHave(c names.PoolConstraints) phrase.Text {
	var out []phrase.Text
	if c.MinHealthyNodes != nil {
		out = append(out, phrase.Of("%s that take pods", plural(int(*c.MinHealthyNodes), "node")))
	}
	if c.MinZones != nil {
		out = append(out, phrase.Of("nodes in %d zones", *c.MinZones))
	}
	return phrase.Join(out, phrase.Of(", "))
}
