package drain

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestAGangThatHalfLeaves because its drain is killed, or because of a budget, is taken along by the next drain: who is left of it
// elsewhere would wait for the others until a timeout.
func TestAGangThatHalfLeaves(t *testing.T) {
	killed := errors.New("killed")
	tests := map[string]struct {
		// stops is the error of the second eviction.
		stops error
		want  error
		// asked are those that are asked to leave, again what the next drain has to evict.
		asked, again []string
	}{
		"killed after the first":       {stops: killed, want: killed, asked: []string{"b", "c"}, again: []string{"c", "a"}},
		"a budget keeps one elsewhere": {stops: apierrors.NewTooManyRequests("budget", 1), asked: []string{"b", "c"}, again: []string{"c", "a"}},
		"nothing stops it":             {asked: []string{"b", "c", "a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pods := []corev1.Pod{pod("a", "n", member), pod("b", "m", member), pod("c", "m", member)}
			client := fake.NewClientset()
			var asked []string
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				name := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction).Name
				asked = append(asked, name)
				if len(asked) == 2 && tc.stops != nil {
					return true, nil, tc.stops
				}
				for i := range pods {
					if pods[i].Name == name {
						going(&pods[i])
					}
				}
				return true, nil, nil
			})
			evict := func() error {
				plan := Decide(&snapshot.Snapshot{Pods: pods, Objects: needs(3)}, "n", false)
				return (&Drainer{Client: client, Report: func(phrase.Text) {}}).EvictOnce(t.Context(), plan)
			}
			if err := evict(); !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked to leave (-want +got):\n%s", diff)
			}
			asked, tc.stops = nil, nil
			if err := evict(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.again, asked); diff != "" {
				t.Errorf("asked to leave by the next (-want +got):\n%s", diff)
			}
		})
	}
}
