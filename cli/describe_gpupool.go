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
	if declared.IsStale() {
		d.writeWrappedField("Note", phrase.Textf("what follows from the GPUPool as it is now has not been written yet: is gpu-controller running?").Localize(d.language))
	}
	d.writeFieldf("Free sets", "%s", freeSets(status.FreeSets))
	d.writeFieldf("Waiting", "%s", pendingSentence(status.Pending, now))
	for _, condition := range status.Conditions {
		d.writeWrappedField(conditionLabel(condition.Type), conditionSentence(condition, now).Localize(d.language))
	}
	if advice := status.Advice; advice != nil {
		d.writeText("Advice", phrase.FromEnglish(advice.Text))
		d.writeWrappedField("Tried", adviceReasoning(advice, now).Localize(d.language))
	}
	d.writeFieldf("Must have", "%s", availabilityText(declared.Spec.Constraints))
	d.writeWrappedField("Only for", accessText(declared.Spec.Access).Localize(d.language))
	if timeout := declared.Spec.Defaults.IdleAfter(); timeout > 0 {
		text := phrase.Textf("are paused after %s, but for services, and jobs that say otherwise", formatAge(now, now.Add(-timeout)))
		d.writeWrappedField("Idle jobs", text.Localize(d.language))
	}
	d.writeWrappedField("Preemption", preemptionProtection(declared.Spec.Defaults).Localize(d.language))
	d.writeWrappedField("Checkpoints", checkpointGraceText(declared.Spec.Defaults).Localize(d.language))
	if share := declared.Spec.Defaults.GPUShare; share != "" {
		d.writeFieldf("GPU share", "%s of each GPU, for jobs that do not say it", share)
	}
	if lines := constraintLines(declared.Spec.Constraints); len(lines) > 0 {
		d.writeSection("A node must")
		for _, line := range lines {
			d.writeWrapped(indent+escapeControls(line.Localize(d.language)), len(indent))
		}
	}
}

// preemptionProtection describes how long the pool's pods are protected from preemption, or "" if the pool does not specify it.
func preemptionProtection(defaults names.PoolDefaults) phrase.Text {
	of := defaults.MinRuntimes()
	switch {
	case of.Most == 0 && cmp.Or(defaults.MinRuntime, defaults.MaxMinRuntime) != "":
		return phrase.Textf("no pod has a min-runtime")
	case of.Default > 0:
		return phrase.Textf("pods run for %s before, and for at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	case of.Most > 0:
		return phrase.Textf("pods run for at most %s before, if their job asks for it", workload.DurationText(of.Most))
	}
	return nil
}

// checkpointGraceText describes how long the pool's pods have to save their work before they are preempted, or "" if the pool does not specify it.
func checkpointGraceText(defaults names.PoolDefaults) phrase.Text {
	of := defaults.CheckpointGraces()
	switch {
	case cmp.Or(defaults.CheckpointGrace, defaults.MaxCheckpointGrace) == "":
		return nil
	case of.Most == 0:
		return phrase.Textf("no pod has time to save its work before")
	case of.Default > 0:
		return phrase.Textf("pods have %s to save their work before, and at most %s if their job asks for it",
			workload.DurationText(min(of.Default, of.Most)), workload.DurationText(of.Most))
	}
	return phrase.Textf("pods have at most %s to save their work before, if their job asks for it", workload.DurationText(of.Most))
}

func freeSets(sets []names.FreeSet) phrase.Text {
	out := make([]phrase.Text, len(sets))
	for i, set := range sets {
		out[i] = phrase.Textf("%d of %d", set.Count, set.Size)
	}
	return phrase.Join(out, phrase.Textf(", "))
}

func pendingSentence(pending names.PendingDemand, now time.Time) phrase.Text {
	if pending.Jobs == 0 {
		return nil
	}
	out := phrase.Textf("%s with %s", countText(int(pending.Jobs), "job"), countText(int(pending.GPUs), "GPU"))
	if pending.Since != nil {
		out = out.Addf(", the first for %s", formatAge(now, pending.Since.Time))
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
	return phrase.Textf("%s for %s: %s", condition.Status, formatAge(now, condition.LastTransitionTime.Time), phrase.FromEnglish(condition.Message))
}

// adviceReasoning says which capacities were simulated for the advice.
func adviceReasoning(advice *names.CapacityAdvice, now time.Time) phrase.Text {
	var tried []phrase.Text
	for _, option := range advice.Options {
		tried = append(tried, phrase.Textf("%s start %s", countText(int(option.Nodes), "node"), countText(int(option.Jobs), "job")))
	}
	out := phrase.Textf("%s ago with the scheduler's own code", formatAge(now, advice.AsOf.Time))
	if advice.Template != "" {
		out = out.Addf(", on nodes like %s", advice.Template)
	}
	if len(tried) > 0 {
		out = out.Addf(": %s", phrase.Join(tried, phrase.Textf(", ")))
	}
	return out
}

// constraintLines returns the constraints of a pool, one per line.
func constraintLines(c names.PoolConstraints) []phrase.Text {
	var out []phrase.Text
	add := func(text phrase.Text) { out = append(out, text) }
	if len(c.GPUTypes) > 0 {
		add(phrase.Textf("have GPUs of type %s", strings.Join(c.GPUTypes, " or ")))
	}
	least := c.MinNode
	if least.GPUs != nil {
		add(phrase.Textf("offer %s or more", countText(int(*least.GPUs), "GPU")))
	}
	if least.GPUMemory != nil {
		add(phrase.Textf("have %s or more on each GPU", least.GPUMemory))
	}
	if least.CPU != nil {
		add(phrase.Textf("offer %s of CPU or more", least.CPU))
	}
	if least.Memory != nil {
		add(phrase.Textf("offer %s of memory or more", least.Memory))
	}
	if len(c.Regions) > 0 {
		add(phrase.Textf("be in region %s", strings.Join(c.Regions, " or ")))
	}
	if len(c.Zones) > 0 {
		add(phrase.Textf("be in zone %s", strings.Join(c.Zones, " or ")))
	}
	return out
}

// accessText says which jobs may use a pool, or "" for all jobs.
func accessText(access names.PoolAccess) phrase.Text {
	var out []phrase.Text
	if len(access.Namespaces) > 0 {
		out = append(out, phrase.Textf("namespaces %s", strings.Join(access.Namespaces, ", ")))
	}
	if len(access.Priorities) > 0 {
		out = append(out, phrase.Textf("priorities %s", joinWords(access.Priorities)))
	}
	return phrase.Join(out, phrase.Textf("; "))
}

// availabilityText says what a pool must have to be available.
func availabilityText(c names.PoolConstraints) phrase.Text {
	var out []phrase.Text
	if c.MinHealthyNodes != nil {
		out = append(out, phrase.Textf("%s that take pods", countText(int(*c.MinHealthyNodes), "node")))
	}
	if c.MinZones != nil {
		out = append(out, phrase.Textf("nodes in %d zones", *c.MinZones))
	}
	return phrase.Join(out, phrase.Textf(", "))
}
