package channel

import (
	"strings"
	"testing"
)

func TestRefused(t *testing.T) {
	policy := map[string]string{
		"host-paths": "/data", "channels.": "*", "channels.all": "*", "channels.ml": "team-a\nteam-b", "channels.ops": "kube-system",
	}
	tests := map[string]struct{ namespace, name, want string }{
		"a channel of the namespace":            {namespace: "team-b", name: "ml"},
		"a channel of all":                      {namespace: "team-c", name: "all"},
		"a channel of another namespace":        {namespace: "team-c", name: "ml", want: `there is no channel "ml" for jobs of namespace team-c: those that there are: all`},
		"a slip, and what is meant beside it":   {namespace: "team-a", name: "mll", want: "those that there are: all, ml"},
		"a namespace is a whole word":           {namespace: "team", name: "ml", want: "those that there are: all"},
		"a name that is the beginning of a key": {namespace: "team-a", name: "", want: "there is no channel"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := RefusalReason(policy, tc.namespace, tc.name).String()
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := RefusalReason(nil, "team", "ml").String(); !strings.Contains(got, "and no other: administrators set them up") {
		t.Errorf("without any channel: got %q", got)
	}
}
