package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// TestRuns: what the pods of a job hold at the same time is one run. Times are seconds, and to -1 is still held.
func TestRuns(t *testing.T) {
	type pod struct {
		job             string
		from, to, until int
		milli           int64
		outcome         string
	}
	tests := map[string]struct {
		pods []pod
		want []string
	}{
		"nothing":                          {nil, nil},
		"one pod":                          {[]pod{{"a", 10, 70, 0, 2000, ""}}, []string{"2 GPUs for 60"}},
		"a gang":                           {[]pod{{"a", 10, 70, 0, 8000, ""}, {"a", 12, 71, 0, 8000, ""}}, []string{"16 GPUs for 61"}},
		"a member of which was replaced":   {[]pod{{"a", 10, 70, 0, 8000, ""}, {"a", 10, 30, 0, 8000, ""}, {"a", 35, 70, 0, 8000, ""}}, []string{"16 GPUs for 60"}},
		"after a failure it began again":   {[]pod{{"a", 10, 30, 0, 8000, ""}, {"a", 40, 100, 0, 8000, ""}}, []string{"8 GPUs for 60", "8 GPUs for 20"}},
		"an array, two at once":            {[]pod{{"a", 0, 30, 0, 1000, ""}, {"a", 0, 40, 0, 1000, ""}, {"a", 30, 60, 0, 1000, ""}, {"a", 40, 90, 0, 1000, ""}}, []string{"2 GPUs for 90"}},
		"it still runs":                    {[]pod{{"a", 10, -1, 0, 8000, ""}}, nil},
		"a member still runs":              {[]pod{{"a", 10, 30, 0, 8000, ""}, {"a", 20, -1, 0, 8000, ""}, {"a", 35, -1, 0, 8000, ""}}, nil},
		"it ran before, and does so again": {[]pod{{"a", 10, 30, 0, 8000, ""}, {"a", 40, -1, 0, 8000, ""}}, []string{"8 GPUs for 20"}},
		"nobody saw its end":               {[]pod{{"a", 10, 30, 50, 8000, ""}}, nil},
		"two jobs":                         {[]pod{{"a", 10, 30, 0, 8000, ""}, {"b", 10, 40, 0, 1000, ""}}, []string{"1 GPUs for 30", "8 GPUs for 20"}},
		"pods of no job":                   {[]pod{{"", 10, 30, 0, 8000, ""}, {"", 10, 40, 0, 1000, ""}}, []string{"1 GPUs for 30", "8 GPUs for 20"}},
		"a part of a GPU":                  {[]pod{{"a", 10, 30, 0, 250, ""}}, []string{"1 GPUs for 20"}},
		"it ended as it began":             {[]pod{{"a", 10, 10, 0, 1000, ""}}, []string{"1 GPUs for 0"}},
		"tasks one after the other":        {[]pod{{"a", 0, 30, 0, 1000, "Succeeded"}, {"a", 35, 60, 0, 1000, "Succeeded"}, {"a", 65, 90, 0, 1000, "Succeeded"}}, []string{"1 GPUs for 90"}},
		"of which the last runs":           {[]pod{{"a", 0, 30, 0, 1000, "Succeeded"}, {"a", 35, 60, 0, 1000, "Succeeded"}, {"a", 65, -1, 0, 1000, ""}}, nil},
		"of which one failed":              {[]pod{{"a", 0, 30, 0, 1000, "Succeeded"}, {"a", 35, 60, 0, 1000, "Failed"}, {"a", 65, 90, 0, 1000, "Succeeded"}}, []string{"1 GPUs for 25", "1 GPUs for 60"}},
		"the next waited for room":         {[]pod{{"a", 0, 30, 0, 1000, "Succeeded"}, {"a", 151, 160, 0, 1000, "Succeeded"}}, []string{"1 GPUs for 9", "1 GPUs for 30"}},
		"pods of no job after each other":  {[]pod{{"", 0, 30, 0, 1000, "Succeeded"}, {"", 35, 60, 0, 1000, "Succeeded"}}, []string{"1 GPUs for 25", "1 GPUs for 30"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			joining := NewRunJoiner()
			var ended []Holding
			for i, p := range tc.pods {
				h := Holding{UID: fmt.Sprint(i), JobUID: p.job, Namespace: "team", Milli: p.milli, From: at(p.from), Outcome: p.outcome}
				if p.to < 0 {
					joining.AddHeld(&h)
					continue
				}
				if h.To = at(p.to); p.until > 0 {
					h.Until = at(p.until)
				}
				ended = append(ended, h)
			}
			slices.SortStableFunc(ended, func(a, b Holding) int { return b.To.Compare(a.To) })
			for i := range ended {
				joining.Add(&ended[i])
			}
			var got []string
			for _, run := range joining.Runs() {
				got = append(got, fmt.Sprintf("%d GPUs for %d", run.GPUs, run.Seconds))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || joining.Len() != len(got) {
				t.Errorf("%d runs (-want +got):\n%s", joining.Len(), diff)
			}
		})
	}
}

// TestOneOwnerDoesNotTakeThePlaceOfOthers: of very many short pods of one user the newest count, and those before them by others do, too.
// A job of which a pod is left out is so with all of its pods.
func TestOneOwnerDoesNotTakeThePlaceOfOthers(t *testing.T) {
	joining := NewRunJoiner()
	add := func(uid, job, namespace, user string, from, to int) {
		joining.Add(&Holding{UID: uid, JobUID: job, Namespace: namespace, User: user, Milli: 1000, From: at(from), To: at(to)})
	}
	for i := range 5000 {
		add(fmt.Sprint(i), "", "team", "ada", 9999-i, 10000-i)
	}
	if !joining.HasSkipped() || joining.Len() != mostOfOwner {
		t.Errorf("%d runs of one owner, skipped %t", joining.Len(), joining.HasSkipped())
	}
	add("a", "array", "team", "ada", 4000, 4900)
	add("b", "array", "team", "ada", 3000, 4800)
	add("c", "", "team", "bob", 100, 200)
	add("d", "", "other", "ada", 50, 100)
	runs := joining.Runs()
	want := []Run{{Namespace: "team", User: "bob", GPUs: 1, Seconds: 100}, {Namespace: "other", User: "ada", GPUs: 1, Seconds: 50}}
	if diff := cmp.Diff(want, runs[mostOfOwner:]); diff != "" {
		t.Errorf("the others (-want +got):\n%s", diff)
	}
}

// TestLearn: of more runs than are kept the newest count, which come first in an answer.
func TestLearn(t *testing.T) {
	runs := append(slices.Repeat([]Run{{Namespace: "team", User: "ada", GPUs: 1, Seconds: 60}}, 5000),
		slices.Repeat([]Run{{Namespace: "team", User: "ada", GPUs: 1, Seconds: 3600}}, 5000)...)
	got := Learn(runs).RemainingTime(survival.Job{Namespace: "team", User: "ada", GPUs: 1}, 0, 0).Quantile(0.5)
	if got.Seconds() != 60 {
		t.Errorf("the median is %s, want that of the newest, 1m", got)
	}
}
