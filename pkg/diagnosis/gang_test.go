package diagnosis

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGangsAreExplained(t *testing.T) {
	type said struct {
		Cause Cause
		Text  string
	}
	cases := map[string]struct {
		verdict string
		want    said
	}{
		"room for some": {
			"0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once. preemption: not eligible due to preemptionPolicy=Never.",
			said{GangWaiting, "there is room for 1 of the 2 members of the job, which start together or not at all"},
		},
		"too few nodes in all": {
			"0/2 nodes are available: gang: the nodes that suit it have room for 2 of 3 members, even when they are empty.",
			said{GangTooLarge, "the nodes that suit the job take 2 of its 3 members, even when they are empty"},
		},
		"a member is missing": {
			"0/2 nodes are available: pre-filter pod a-1-x cannot find enough sibling pods, current pods number: 1, minMember of group: 2.",
			said{GangIncomplete, "the job has 1 of its 2 members: the others have ended, or are yet to be created"},
		},
		"another member found no place": {
			"0/1 nodes are available: 1 optimistic rejection in PostFilter.",
			said{GangWaiting, "another member of the job found no place, and all start together or not at all"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := findings(tc.verdict, podRules)
			if len(found) != 1 {
				t.Fatalf("got %d findings, want 1: %v", len(found), found)
			}
			if diff := cmp.Diff(tc.want, said{found[0].Cause, found[0].Text}); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
			if len(found[0].Advice) == 0 {
				t.Error("there is no advice")
			}
		})
	}
}
