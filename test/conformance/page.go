package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Run is what the page tells of.
type Run struct {
	Ours, Stock Results
	Known       []Difference
	Wrong       []string
	// Version is that of Kubernetes, At when it was run, and Took how long building took, and each suite with each scheduler.
	Version string
	At      time.Time
	Took    map[string]time.Duration
	// Missing are the suites that were not run.
	Missing []string
}

const head = `# Kubernetes' own tests of its scheduler

Written by ` + "`make conformance`" + `: ` + "`test/integration/scheduler`" + ` of Kubernetes %s, run on %s with our plugins, settings and wrappers, and as it is
with the stock scheduler, by the same programs. Building them took %s, running them %s and %s, one suite after the other and both schedulers beside each other.

A test that fails with ours and is not listed [below](#what-differs) fails the run, and so does one that is listed and does not fail, or does not
pass with stock. What fails is run once more before it counts.

How ours gets into them: [` + "`test/conformance`" + `](../../test/conformance) writes the tests anew from the module cache, and puts its own function where they
call ` + "`scheduler.New`" + `. That adds what [` + "`scheduler-config.yaml`" + `](../../manifests/scheduler/scheduler-config.yaml) says to the profile that the test asks for,
and wraps the scheduler as ` + "`cmd/gpu-scheduler`" + ` does. Where a test has a plugin of its own sort the queue or bind pods, that plugin does, as it is what is
tested. The fence, the leader election and the server are not part of it; ` + "`serving`" + ` tests kube-scheduler's own command, and is the same for both.

It is not part of ` + "`make test`" + `: %s

## What became of them

Tests, and subtests in brackets. Refused are tests that turn on feature gate ` + "`GenericWorkload`" + `, Kubernetes' own cycle for PodGroups, which is off as
Kubernetes ships it. gpu-scheduler refuses to start with it: it plans [PodGroups itself](../gangs.md), from the same objects, and [` + "`test/operators`" + `](../../test/operators)
has what becomes of them.

| suite | passed: ours | stock | failed: ours | stock | skipped: ours | stock | refused by ours |
|---|---|---|---|---|---|---|---|
`

// apart says why make test does not run it.
const apart = "each of its suites links an API server into a program of its own, and its tests wait for what does not happen."

// Page is the page of a run.
func Page(run Run) string {
	var page strings.Builder
	fmt.Fprintf(&page, head, run.Version, run.At.UTC().Format(time.DateOnly), run.Took["build"].Round(time.Second), run.sum(Ours), run.sum(Stock), apart)
	suites := map[string]bool{}
	for test := range run.Ours {
		suites[test.Suite] = true
	}
	for _, suite := range slices.Sorted(maps.Keys(suites)) {
		row(&page, "`"+suite+"`", suite, run)
	}
	row(&page, "**all**", "", run)
	if len(run.Missing) > 0 {
		fmt.Fprintf(&page, "\n**Not run:** `%s`.\n", strings.Join(run.Missing, "`, `"))
	}
	page.WriteString("\n## What differs\n\n")
	if len(run.Known) == 0 {
		page.WriteString("Nothing that is known.\n")
	}
	for _, d := range run.Known {
		page.WriteString(d.markdown())
	}
	if len(run.Wrong) > 0 {
		page.WriteString("\n## What is wrong\n\n")
		for _, what := range run.Wrong {
			fmt.Fprintf(&page, "- %s\n", what)
		}
	}
	writeSkipped(&page, run)
	return page.String()
}

// markdown returns the entry of a difference on the page.
func (d *Difference) markdown() string {
	return fmt.Sprintf("- **`%s`, %d**: %s\n  `%s`\n", d.Suite, len(d.Tests), strings.Join(strings.Fields(d.Reason), " "), strings.Join(d.Tests, "`, `"))
}

func (r *Run) sum(scheduler string) time.Duration {
	var sum time.Duration
	for what, took := range r.Took {
		if strings.HasPrefix(what, scheduler+" ") {
			sum += took
		}
	}
	return sum.Round(time.Second)
}

func row(page *strings.Builder, title, suite string, run Run) {
	fmt.Fprintf(page, "| %s |", title)
	for _, action := range []string{pass, fail, skip} {
		for _, results := range []Results{run.Ours, run.Stock} {
			fmt.Fprintf(page, " %d (%d) |", results.count(suite, action, true), results.count(suite, action, false))
		}
	}
	fmt.Fprintf(page, " %d (%d) |\n", run.Ours.count(suite, refuse, true), run.Ours.count(suite, refuse, false))
}

func writeSkipped(page *strings.Builder, run Run) {
	var skipped []Test
	for test, outcome := range run.Ours {
		if outcome.Action == skip {
			skipped = append(skipped, test)
		}
	}
	if len(skipped) == 0 {
		return
	}
	slices.SortFunc(skipped, func(a, b Test) int { return cmp.Compare(a.String(), b.String()) })
	page.WriteString("\n## What is skipped\n\nBy the tests themselves, with stock as well where nothing else is said.\n\n| suite | test | what it says |\n|---|---|---|\n")
	for _, test := range skipped {
		said := run.Ours[test].Said
		if other := run.Stock[test].Action; other != skip {
			said += " (stock: " + other + ")"
		}
		fmt.Fprintf(page, "| `%s` | `%s` | %s |\n", test.Suite, strings.ReplaceAll(test.Name, "|", `\|`), strings.ReplaceAll(said, "|", `\|`))
	}
}
