package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

func TestAJobThatNoMovesHelpHasOneLine(t *testing.T) {
	var advice defrag.Advice
	for _, job := range []string{"a", "b"} {
		for rank := range 3 {
			why := "not all pods of its gang can be helped"
			advice.Unhelped = append(advice.Unhelped, defrag.Unhelped{
				Ref: defrag.Ref{Namespace: "team", Pod: fmt.Sprintf("%s-%d", job, rank), Job: job, Kind: "training", GPUs: 8}, Why: phrase.Textf(why),
			})
		}
	}
	for pod := range 2 {
		advice.Unhelped = append(advice.Unhelped, defrag.Unhelped{
			Ref: defrag.Ref{Namespace: "team", Pod: fmt.Sprintf("own-%d", pod), GPUs: 1}, Why: phrase.Quote("it is large"),
		})
	}
	streams, out, _ := TestIOStreams("")
	if err := (&adviseDefragOptions{limits: defrag.DefaultLimits}).printAdvice(streams, advice); err != nil {
		t.Fatal(err)
	}
	want := `training/a (3 pods) of namespace team waits for 24 GPUs: no moves help: not all pods of its gang can be helped

training/b (3 pods) of namespace team waits for 24 GPUs: no moves help: not all pods of its gang can be helped

pod own-0 of namespace team waits for 1 GPU: no moves help: it is large

pod own-1 of namespace team waits for 1 GPU: no moves help: it is large

Nothing is to be moved (looked for at most 16 moves each, of pods that have run for 10m0s).
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("advice (-want +got):\n%s", diff)
	}
}

func TestWhoAppliesIsNotToldToApply(t *testing.T) {
	advice := defrag.Advice{Proposals: []defrag.Proposal{{Node: "a", Moves: []defrag.Move{{From: "a", To: "b"}}}}}
	for _, apply := range []bool{false, true} {
		streams, out, _ := TestIOStreams("")
		if err := (&adviseDefragOptions{apply: apply}).printAdvice(streams, advice); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "--apply makes the moves"); got == apply {
			t.Errorf("with --apply %t it says so: %t\n%s", apply, got, out.String())
		}
	}
}
