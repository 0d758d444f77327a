package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

func output(namespace, job, pod string, second int, text string) ledger.Output {
	return ledger.Output{Namespace: namespace, Job: job, Pod: pod, PodUID: "u-" + pod, Container: "main", Created: noon, Kept: hour(float64(second) / 3600), Text: text}
}

func TestOutputIsKept(t *testing.T) {
	s := opened(t)
	kept := func(q OutputQuery) (out []string, more bool) {
		t.Helper()
		q.Namespace.Name = "a"
		found, more, err := s.Outputs(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found {
			out = append(out, o.Pod+"="+o.Text)
		}
		return out, more
	}
	for _, o := range []ledger.Output{output("a", "j", "p", 1, "half"), output("a", "j", "p", 2, "whole"), output("a", "j", "q", 3, "other"), output("b", "j", "x", 3, "not yours")} {
		if err := s.PutOutput(o, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		q    OutputQuery
		want []string
		more bool
	}{
		"all, the last first":  {q: OutputQuery{Job: "j", Most: 100}, want: []string{"q=other", "p=whole"}},
		"a pod":                {q: OutputQuery{Job: "j", Pod: "p", Most: 100}, want: []string{"p=whole"}},
		"a container":          {q: OutputQuery{Job: "j", Container: "side", Most: 100}},
		"no more than so much": {q: OutputQuery{Job: "j", Most: 6}, want: []string{"q=other"}, more: true},
		"another job":          {q: OutputQuery{Job: "jj", Most: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			got, more := kept(tc.q)
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more {
				t.Errorf("more %t, want %t; output (-want +got):\n%s", more, tc.more, diff)
			}
		})
	}
	if has, err := s.HasOutput("u-p", "main"); !has || err != nil {
		t.Errorf("it is not there: %t, %v", has, err)
	}
}

// TestTheBudget: the oldest go first, and one namespace cannot drive out the others.
func TestTheBudget(t *testing.T) {
	s := opened(t)
	const budget = 8000 // some twenty outputs of these
	if err := s.PutOutput(output("quiet", "j", "first", 0, "kept"), budget); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := s.PutOutput(output("loud", "j", fmt.Sprint("p", i), i+1, strings.Repeat("x", i)), budget); err != nil {
			t.Fatal(err)
		}
	}
	count := func(namespace string) int {
		t.Helper()
		out, _, err := s.Outputs(OutputQuery{Namespace: Namespace{Name: namespace}, Job: "j", Most: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if namespace == "loud" && len(out) > 0 && out[0].Pod != "p99" {
			t.Errorf("the newest is gone, and %s is there", out[0].Pod)
		}
		return len(out)
	}
	if quiet, loud := count("quiet"), count("loud"); quiet != 1 || loud == 0 || loud > 10 {
		t.Errorf("%d of the quiet and %d of the loud are kept, want 1 and no more than a quarter of the budget", quiet, loud)
	}
	for n := range 30 {
		if err := s.PutOutput(output(fmt.Sprint("n", n), "j", fmt.Sprint("q", n), 200+n, "text"), budget); err != nil {
			t.Fatal(err)
		}
	}
	if quiet := count("quiet"); quiet != 0 {
		t.Errorf("%d of the oldest are kept beyond the budget", quiet)
	}
}

// TestOutputThatBrokeOff takes no place of more, and gives its own to what did not.
func TestOutputThatBrokeOff(t *testing.T) {
	s := opened(t)
	for i, step := range []struct {
		text   string
		broken bool
		want   string
		whole  bool
	}{
		{text: "be", broken: true, want: "be"},
		{text: "begin", broken: true, want: "begin"},
		{text: "beg", broken: true, want: "begin"},
		{text: "end", want: "end", whole: true},
		{text: "end and more", broken: true, want: "end", whole: true},
	} {
		o := output("a", "j", "p", i, step.text)
		o.Incomplete = step.broken
		if err := s.PutOutput(o, 1<<20); err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Outputs(OutputQuery{Namespace: Namespace{Name: "a"}, Job: "j", Most: 100})
		if err != nil || len(got) != 1 || got[0].Text != step.want || got[0].Incomplete == step.whole {
			t.Errorf("after %q: kept %+v, %v, want %q", step.text, got, err, step.want)
		}
		if has, err := s.HasOutput("u-p", "main"); has != step.whole || err != nil {
			t.Errorf("after %q: kept to its end %t, %v", step.text, has, err)
		}
	}
}
