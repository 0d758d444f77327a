package situations

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/bounds"
)

// situation is one reason for which a job does not run.
type situation struct {
	// make brings it about.
	make func(*world)
	// want is the cause that the answer names first, and also those that it names beside it.
	want reason.Cause
	also []reason.Cause
	// says are parts of the answer, and never what is not true: it may not be said at any time until the advice is followed.
	says, never []string
	// follow is the step of the first finding that is carried out, "" for the first.
	follow reason.Action
}

// atLeast is how many situations there are to be.
const atLeast = 40

// TestTheAdviceHelps makes each situation, asks why, and does what the answer says: then the job runs.
func TestTheAdviceHelps(t *testing.T) {
	bounds.SkipInShort(t)
	groups := map[string]map[string]situation{
		"the wrong nodes": wrongNodes, "no room": noRoom, "several nodes": severalNodes, "not let in": notLetIn,
		"closed nodes": closedNodes, "cannot be read": cannotBeRead, "volumes": volumes, "does not start": doesNotStart,
		"does not go on": doesNotGoOn,
	}
	count := len(alone)
	t.Run("together", func(t *testing.T) {
		for group, situations := range groups {
			count += len(situations)
			for name, s := range situations {
				t.Run(group+"/"+name, func(t *testing.T) {
					t.Parallel()
					s.try(newWorld(t))
				})
			}
		}
	})
	for name, s := range alone {
		t.Run("alone/"+name, func(t *testing.T) { s.try(newWorld(t)) })
	}
	if count < atLeast {
		t.Errorf("there are %d situations, want %d", count, atLeast)
	}
	t.Logf("%d situations", count)
}

// try makes the situation, and follows the advice until the job runs.
func (s *situation) try(w *world) {
	s.make(w)
	report := s.ask(w)
	for round := range 1 + len(report.Findings) {
		if len(report.Findings) == 0 {
			break // it runs already
		}
		steps, follow := report.Findings[0].Steps, s.follow
		if round > 0 {
			follow = ""
		}
		at := slices.IndexFunc(steps, func(step diagnosis.Step) bool { return follow == "" || step.Action == follow })
		if at < 0 {
			w.Fatalf("none of the steps is %q: %+v", follow, steps)
		}
		w.carryOut(steps[at])
		if w.runsNow(report.Cause) {
			return
		}
		report = w.why()
	}
	w.Errorf("the job does not run: %+v\n%s", w.why(), w.gpuctl("why", "train"))
}

// ask waits for the cause, and checks all that is said on the way to it and then.
func (s *situation) ask(w *world) diagnosis.Report {
	w.Helper()
	deadline := time.Now().Add(patience)
	for {
		report, text := w.why(), w.person()
		w.check(text, s.never...)
		got := causes(report)
		found := got[0] == s.want && slices.Equal(got[1:min(len(got), 1+len(s.also))], s.also)
		if found || time.Now().After(deadline) {
			if !found {
				w.Fatalf("the causes are %v, want %s first, then %v\n%s", got, s.want, s.also, text)
			}
			for _, part := range s.says {
				if !strings.Contains(unwrapped(text), part) {
					w.Errorf("the answer does not say %q:\n%s", part, text)
				}
			}
			w.Logf("\n%s", text)
			return report
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func causes(report diagnosis.Report) []reason.Cause {
	out := []reason.Cause{}
	for _, finding := range report.Findings {
		out = append(out, finding.Cause)
	}
	if len(out) == 0 {
		out = append(out, report.Cause)
	}
	return out
}

// passing are causes that a job goes through on its way to running.
var passing = []reason.Cause{
	reason.Running, reason.WaitingForTurn, reason.RoomNow, reason.Starting, reason.Replacing, reason.WaitingForControllers,
	reason.GangIncomplete, reason.Unknown, reason.Deleted, reason.Preempting, reason.Preempted,
}

// runsNow waits until the job runs, or something else stands against it than before.
func (w *world) runsNow(before reason.Cause) bool {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if w.runs(w.Context()) {
			return true
		}
		if _, _, code := w.try("why", "train"); code == 0 { // it is gone for a moment when it is made again
			w.check(w.person())
			if cause := w.why().Cause; cause != before && !slices.Contains(passing, cause) {
				return false
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	return false
}

// columns is the width of the terminal on which the answers must be readable, and lines its height.
const columns, lines = 100, 40

// person asks as a person does, on a terminal.
func (w *world) person() string {
	w.Helper()
	streams, out, errOut := cli.TestIOStreams("")
	streams.Width = columns
	args := []string{"gpuctl", "--kubeconfig", cluster.Kubeconfig(), "-n", w.now, "why", "train"}
	if code := cli.Run(w.Context(), cli.NewFactory(streams), args); code != 0 {
		return errOut.String()
	}
	return out.String()
}

// unwrapped is a text in one line.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// neverTrue is said of no situation here.
var neverTrue = []string{"at most 0", "0 GPUs per pod", "%!", "<nil>", "[]", "map["}

// named finds the nodes, pools and jobs of which an answer speaks.
var named = regexp.MustCompile(`(?:node|nodes|pool) (s-[a-z0-9]+-[a-z0-9-]+)`)

// check looks for what is not true in an answer, whatever the situation, and for what does not fit a screen.
func (w *world) check(text string, never ...string) {
	w.Helper()
	for _, wrong := range slices.Concat(neverTrue, never) {
		if strings.Contains(unwrapped(text), wrong) {
			w.Errorf("the answer says %q, which is not true:\n%s", wrong, text)
		}
	}
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(w.nodes, match[1]) {
			w.Errorf("the answer names %s, which is not there:\n%s", match[1], text)
		}
	}
	all := strings.Split(text, "\n")
	if len(all) > lines {
		w.Errorf("the answer has %d lines, which no screen holds:\n%s", len(all), text)
	}
	for _, line := range all {
		isRow := strings.Count(strings.TrimSpace(line), "  ") > 0 // of a table, as wide as its names
		if width := len([]rune(line)); width > columns && !isRow {
			w.Errorf("a line has %d columns: %q", width, line)
		}
	}
}
