package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
)

// TestALongLineIsPrintedWhole though it comes in pieces.
func TestALongLineIsPrintedWhole(t *testing.T) {
	var out strings.Builder
	printer := logPrinter{io: IOStreams{Out: &out}}
	for _, line := range []joblogs.Line{{Text: "be", Cut: true}, {Text: "gin", Cut: true}, {Text: "ning"}, {Text: "end"}} {
		if err := printer.printLine(line); err != nil {
			t.Fatal(err)
		}
	}
	if want := "beginning\nend\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestLinesNameTheirPodWhenThereAreSeveral(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 5, time.UTC)
	lines := []joblogs.Line{
		{Source: joblogs.Source{Pod: "sft-0-x"}, Text: "no rank"},
		{Source: joblogs.Source{Pod: "sft-0-y", Rank: ptr.To(0)}, Time: at, Text: "first"},
		{Source: joblogs.Source{Pod: "sft-0-z", Rank: ptr.To(0), Again: true}, Time: at, Text: "second"},
		{Source: joblogs.Source{Pod: "sft-0-x"}, Text: "no rank"},
	}
	one, two := inventory.Job{Desired: 1, Pods: make([]inventory.Pod, 1)}, inventory.Job{Desired: 2}
	tests := map[string]struct {
		printer logPrinter
		job     inventory.Job
		want    string
	}{
		"one pod": {
			job: one, want: "no rank\nfirst\nsecond\nno rank\n",
		},
		"several pods": {
			job: two, want: "[sft-0-x] no rank\n[rank 0] first\n[rank 0 sft-0-z] second\n[sft-0-x] no rank\n",
		},
		"tasks of an array": {
			job:  inventory.Job{Desired: 2, Array: &inventory.Array{Tasks: 3}},
			want: "[sft-0-x] no rank\n[task 0] first\n[task 0 sft-0-z] second\n[sft-0-x] no rank\n",
		},
		"no prefix is wanted": {
			printer: logPrinter{noPrefix: true}, job: two, want: "no rank\nfirst\nsecond\nno rank\n",
		},
		"times are wanted": {
			printer: logPrinter{timestamps: true}, job: one,
			want: "no rank\n2026-11-01T12:00:00.000000005Z first\n2026-11-01T12:00:00.000000005Z second\nno rank\n",
		},
		"each pod keeps its colour": {
			printer: logPrinter{io: IOStreams{Color: true}}, job: two,
			want: "\x1b[36m[sft-0-x]\x1b[0m no rank\n\x1b[33m[rank 0]\x1b[0m first\n" +
				"\x1b[32m[rank 0 sft-0-z]\x1b[0m second\n\x1b[36m[sft-0-x]\x1b[0m no rank\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, out, _ := TestIOStreams("")
			streams.Color = tc.printer.io.Color
			tc.printer.io = streams
			tc.printer.preparePods(tc.job)
			for _, line := range lines {
				if err := tc.printer.printLine(line); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheExitCodeIsThatOfTheFirstFailure(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ended := func(pod string, code int32, after time.Duration) inventory.Pod {
		return inventory.Pod{Name: pod, Containers: []inventory.ContainerState{{
			Name: "main", Ended: ptr.To(at.Add(after)), ExitCode: &code,
		}}}
	}
	tests := map[string]struct {
		job  inventory.Job
		want int
	}{
		"the rank that failed first, not those killed for it": {
			inventory.Job{Status: inventory.StatusFailed, Pods: []inventory.Pod{
				ended("a", 137, 2*time.Second), ended("b", 3, time.Second), ended("c", 0, 0),
			}}, 3,
		},
		"no container failed, the job did": {inventory.Job{Status: inventory.StatusFailed}, 100},
		"a failure that was retried":       {inventory.Job{Status: inventory.StatusSucceeded, Pods: []inventory.Pod{ended("a", 1, 0)}}, 0},
		"it goes on":                       {inventory.Job{Status: inventory.StatusRunning, Pods: []inventory.Pod{ended("a", 1, 0)}}, 101},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(programOutcome(tc.job)); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}

func TestStatusLine(t *testing.T) {
	tests := map[string]struct {
		terminal bool
		want     string
	}{
		"a pipe gets a line for each change":          {want: "waits\nruns on a node with a long name\n"},
		"a terminal has one line, cut to what it has": {terminal: true, want: clearRow + "waits 0s" + clearRow + clearRow + "runs on a node… 0s" + clearRow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, _, errOut := TestIOStreams("")
			streams.ErrIsTerminal, streams.ErrWidth = tc.terminal, 19
			line := &statusLine{io: streams, done: make(chan struct{})} // without a clock that draws
			line.setText("waits")
			line.setText("waits")
			line.clearLine()
			line.setText("runs on a node with a long name")
			line.endLine()
			line.setText("too late")
			if diff := cmp.Diff(tc.want, errOut.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
