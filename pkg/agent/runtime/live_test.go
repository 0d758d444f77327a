package runtime

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func inSandbox(id string, c *cri.Container) *cri.Container {
	c.Id, c.PodSandboxId = id+"-container", id
	return c
}

func withID(id string, s *cri.PodSandbox) *cri.PodSandbox {
	s.Id = id
	return s
}

// TestAContainerThatNeverStarted: a runtime that was killed between making and starting a container has it for ever, while
// the pod is long gone. Its cards are free some time after its sandbox has stopped, and no sooner: a start may be under way.
func TestAContainerThatNeverStarted(t *testing.T) {
	const created, running = cri.ContainerState_CONTAINER_CREATED, cri.ContainerState_CONTAINER_RUNNING
	begin := time.Now()
	type step struct {
		after      time.Duration
		sandbox    cri.PodSandboxState
		containers []*cri.Container
		want       map[types.UID]map[string]bool
	}
	left := []*cri.Container{inSandbox("s", container("p", "main", created))}
	waits, gone := map[types.UID]map[string]bool{"p": {"main": false}}, map[types.UID]map[string]bool{}
	const ready, stopped = cri.PodSandboxState_SANDBOX_READY, cri.PodSandboxState_SANDBOX_NOTREADY
	for name, steps := range map[string][]step{
		"its sandbox is there": {{0, ready, left, waits}, {time.Hour, ready, left, waits}},
		"its sandbox has stopped": {
			{0, ready, left, waits}, {time.Hour, stopped, left, waits}, {time.Hour + strandedFor - 1, stopped, left, waits}, {time.Hour + strandedFor, stopped, left, gone},
		},
		"it starts after all": {
			{0, stopped, left, waits}, {time.Second, stopped, []*cri.Container{inSandbox("s", container("p", "main", running))}, map[types.UID]map[string]bool{"p": {"main": true}}},
			{time.Hour, stopped, left, waits}, {time.Hour + strandedFor, stopped, left, gone},
		},
		"another of its name runs": {
			{0, ready, []*cri.Container{inSandbox("s", container("p", "main", running)), inSandbox("s", container("p", "main", created))}, map[types.UID]map[string]bool{"p": {"main": true}}},
			{1, ready, []*cri.Container{inSandbox("s", container("p", "main", created)), inSandbox("s", container("p", "main", running))}, map[types.UID]map[string]bool{"p": {"main": true}}},
		},
		"nobody knows whether it runs": {
			{0, stopped, []*cri.Container{inSandbox("s", container("p", "main", cri.ContainerState_CONTAINER_UNKNOWN))}, waits},
			{time.Hour, stopped, []*cri.Container{inSandbox("s", container("p", "main", cri.ContainerState_CONTAINER_UNKNOWN))}, waits},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen stranded
			for i, step := range steps {
				var live map[types.UID]map[string]bool
				live, seen = livePods([]*cri.PodSandbox{withID("s", sandbox("p", step.sandbox))}, step.containers, seen, begin.Add(step.after))
				if diff := cmp.Diff(step.want, live); diff != "" {
					t.Errorf("step %d: live pods (-want +got):\n%s", i, diff)
				}
			}
			if len(seen) > 1 {
				t.Errorf("%d containers are remembered", len(seen))
			}
		})
	}
}
