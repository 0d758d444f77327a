package server

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestIfMatchCheck(t *testing.T) {
	tests := map[string]struct {
		match    string
		versions []string
		refused  bool
	}{
		"without a condition all goes":                  {match: "", versions: []string{`"a"`}},
		"without a condition what is not there, too":    {match: "", versions: nil},
		"the version that was seen":                     {match: `"a"`, versions: []string{`"a"`}},
		"another":                                       {match: `"b"`, versions: []string{`"a"`}, refused: true},
		"one of several":                                {match: `"b" , "a"`, versions: []string{`"a"`}},
		"one of several things that stand for it":       {match: `"l"`, versions: []string{`"n"`, `"l"`}},
		"a weak one, which promises too little":         {match: `W/"a"`, versions: []string{`"a"`}, refused: true},
		"whatever is there":                             {match: "*", versions: []string{`"a"`}},
		"whatever is there, when nothing is":            {match: "*", versions: []string{""}, refused: true},
		"an empty version is not that of nothing":       {match: `""`, versions: []string{""}, refused: true},
		"commas alone are none, and match nothing":      {match: ",", versions: []string{`"a"`, ""}, refused: true},
		"a version without its quotes is another":       {match: "a", versions: []string{`"a"`}, refused: true},
		"a star among others is whatever is there, too": {match: `"b", *`, versions: []string{`"a"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := IfMatch{Match: tc.match}.checkVersion("it", tc.versions...)
			var refused *refusal
			if got := errors.As(err, &refused) && refused.status == http.StatusPreconditionFailed; got != tc.refused {
				t.Errorf("refused is %t, want %t: %v", got, tc.refused, err)
			}
		})
	}
}

// TestETagsChangeWithWhatIsWritten and with nothing else.
func TestETagsChangeWithWhatIsWritten(t *testing.T) {
	node := func(edit func(*corev1.Node)) string {
		out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "1", ResourceVersion: "7", Labels: map[string]string{names.LabelPool: "train"},
			Annotations: map[string]string{names.AnnotationInventory: "{}"},
		}}
		edit(out)
		return objectETag(out)
	}
	same := node(func(*corev1.Node) {})
	tests := map[string]struct {
		edit    func(*corev1.Node)
		changes bool
	}{
		"a label":                        {edit: func(n *corev1.Node) { n.Labels["a"] = "b" }, changes: true},
		"a description":                  {edit: func(n *corev1.Node) { n.Annotations[names.AnnotationDescription] = "x" }, changes: true},
		"another object of the name":     {edit: func(n *corev1.Node) { n.UID = "2" }, changes: true},
		"a new specification":            {edit: func(n *corev1.Node) { n.Generation++ }, changes: true},
		"its state":                      {edit: func(n *corev1.Node) { n.ResourceVersion, n.Status.Phase = "8", corev1.NodeRunning }},
		"what an agent reports of cards": {edit: func(n *corev1.Node) { n.Annotations[names.AnnotationInventory] = "[]" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := node(tc.edit) != same; got != tc.changes {
				t.Errorf("the ETag changes: %t, want %t", got, tc.changes)
			}
		})
	}
	if objectETag(nil) != "" {
		t.Error("what is not there has a version")
	}
}
