package plugins_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
)

// TestNobodyLeavesForAPodWhoseBindingWouldBeRefused: it is asked before, once for all that were to leave, and the pod says why. An API server that
// does not say has them leave, and tell, as if nobody had asked.
func TestNobodyLeavesForAPodWhoseBindingWouldBeRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		grace  string
		want   string
	}{
		"a policy refuses":                  {answer: apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("not this one")), want: "v0 stays, v1 stays, v2 stays"},
		"it refuses, and they have a grace": {answer: apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("not this one")), grace: "5m", want: "v0 stays, v1 stays, v2 stays"},
		"nothing refuses":                   {want: "v0 gone, v1 gone, v2 gone"},
		"the API server is busy":            {answer: apierrors.NewTooManyRequests("busy", 1), want: "v0 gone, v1 gone, v2 gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPoliteCluster(t, "a")
			for _, victim := range []string{"v0", "v1", "v2"} {
				c.runs("a", victim, "2", tc.grace)
			}
			var asked atomic.Int64
			client, ok := c.scheduler.Profiles[names.SchedulerName].ClientSet().(*fake.Clientset)
			if !ok {
				t.Fatal("it is no fake")
			}
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.GetSubresource() != "binding" {
					return false, nil, nil
				}
				asked.Add(1)
				return true, nil, tc.answer
			})
			c.is(pod("p", "1", "8").Priority(1).Obj())
			if node, told := c.tries("p"); node != "a" {
				t.Fatalf("it is nominated for %q, and told %q", node, told)
			}
			for end := time.Now().Add(bounds.Of(10 * time.Second)); asked.Load() == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			c.becomes(tc.want, "v0", "v1", "v2")
			if got := asked.Load(); got != 1 {
				t.Errorf("the API server is asked %d times", got)
			}
			if !strings.Contains(tc.want, "stays") {
				return
			}
			node, told := c.tries("p")
			for i := 0; node != "" && i < 1000; i++ { // the answer may be on its way
				node, told = c.tries("p")
			}
			if node != "" || !strings.Contains(told, "not this one") {
				t.Errorf("it is nominated for %q, and told %q", node, told)
			}
			c.becomes(tc.want, "v0", "v1", "v2")
		})
	}
}
