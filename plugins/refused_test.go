package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/upstream"
)

// rejectedBy is a status of Reserve or Permit, as kube-scheduler hands it on.
func rejectedBy(plugin, node string) *fwk.Status {
	unfit := &framework.FitError{NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: sets.New(plugin),
	}}
	unfit.Diagnosis.NodeToStatus.Set(node, fwk.NewStatus(fwk.Unschedulable, "it is refused").WithPlugin(plugin))
	return fwk.NewStatus(fwk.Unschedulable).WithError(unfit)
}

// TestNobodyLeavesTwiceForAPodThatIsRefused, whoever refuses it after a node was found for it. The pod says why.
func TestNobodyLeavesTwiceForAPodThatIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		status *fwk.Status
		words  string
		// before says that it had no node yet.
		before, evicts bool
	}{
		"its Binding by a policy":                  {status: fwk.AsStatus(errors.New(`running Bind plugin "GPUDevices": pods "p" is forbidden: it is refused`)), words: `pods "p" is forbidden: it is refused`},
		"PreBind, as an error":                     {status: fwk.AsStatus(errors.New(`running PreBind plugin "VolumeBinding": it is refused`)), words: `running PreBind plugin "VolumeBinding": it is refused`},
		"PreBind, as a rejection":                  {status: fwk.NewStatus(fwk.Unschedulable, "it is refused").WithPlugin("Other"), words: "Other: it is refused"},
		"Reserve or Permit":                        {status: rejectedBy("Other", "a"), words: "Other: it is refused"},
		"a filter, which is no refusal":            {status: rejectedBy("Other", "a"), before: true, evicts: true},
		"the fence, since another scheduler leads": {status: fwk.AsStatus(errors.New(`running Bind plugin "GPUDevices": pods "p" is forbidden: ValidatingAdmissionPolicy 'g8s-fence' with binding 'g8s-fence' denied request`)), evicts: true},
		"members of its gang":                      {status: rejectedBy("Coscheduling", "a"), evicts: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPoliteCluster(t, "a")
			c.runs("a", "victim", "8", "")
			p := pod("p", "1", "8").Priority(1).Obj()
			c.is(p)
			c.fails(p, "a", tc.status, !tc.before)
			node, told := c.tries("p")
			if evicts := node != ""; evicts != tc.evicts {
				t.Fatalf("it is nominated for %q, and told %q", node, told)
			}
			if tc.evicts {
				return
			}
			c.becomes("victim stays", "victim")
			if !strings.Contains(told, tc.words) {
				t.Errorf("it is told %q, want %q", told, tc.words)
			}
			c.says("p", tc.words)
		})
	}
}

// fails has a pod fail that is to be on a node, or has none yet.
func (c *politeCluster) fails(pod *corev1.Pod, node string, status *fwk.Status, found bool) {
	c.t.Helper()
	pod = pod.DeepCopy()
	if found {
		pod.Spec.NodeName = node
	}
	upstream.Fail(c.t, c.scheduler, names.SchedulerName, pod, status)
}

// says waits until a pod says that it was refused, and why.
func (c *politeCluster) says(name, words string) {
	c.t.Helper()
	var message string
	err := wait.PollUntilContextTimeout(c.t.Context(), 5*time.Millisecond, bounds.Of(10*time.Second), true, func(ctx context.Context) (bool, error) {
		pod, err := c.api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for i := range pod.Status.Conditions {
			message = pod.Status.Conditions[i].Message
		}
		values, ok := reason.PlaceRefused.ValuesIn(message)
		return ok && values[2] == words, nil
	})
	if err != nil {
		c.t.Errorf("it says %q", message)
	}
}

// TestIsVerdict tells what judged a pod from what only went wrong.
func TestIsVerdict(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	bind := func(err error) *fwk.Status {
		return fwk.AsStatus(fmt.Errorf("running Bind plugin %q: %w", "GPUDevices", err))
	}
	for name, tc := range map[string]struct {
		status *fwk.Status
		want   bool
	}{
		"a plugin at Reserve or Permit":          {status: rejectedBy("Other", "a"), want: true},
		"a plugin at PreBind":                    {status: fwk.NewStatus(fwk.Unschedulable, "it is refused").WithPlugin("Other"), want: true},
		"a policy":                               {status: bind(apierrors.NewForbidden(pods, "p", errors.New("it is refused"))), want: true},
		"a webhook that cannot be called":        {status: bind(apierrors.NewInternalError(errors.New(`failed calling webhook "no.example": EOF`)))},
		"an API server that does not answer":     {status: bind(errors.New("EOF"))},
		"a volume that does not come in PreBind": {status: fwk.AsStatus(errors.New(`running PreBind plugin "VolumeBinding": timed out`))},
	} {
		if got := plugins.IsVerdict(tc.status); got != tc.want {
			t.Errorf("%s: a verdict: %t, want %t", name, got, tc.want)
		}
	}
}
