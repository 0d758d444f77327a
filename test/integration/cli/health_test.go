package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// gpuNode puts a node with cards into the cluster, of which some are not healthy.
func (s *session) gpuNode(name, pool string, unhealthy ...int) {
	s.Helper()
	cards := fixture.Cards(name, 81920, 81920, 81920, 81920).Unhealthy(unhealthy...).Annotation(s)
	node := fixture.Node(name).Pool(pool).GPUs(4, "A100-80G").Annotate(names.AnnotationInventory, cards).Obj()
	created, err := client.CoreV1().Nodes().Create(s.Context(), node, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(background, name, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
	created.Spec.Taints = nil // without controllers nobody else takes away that it is not ready
	if created, err = client.CoreV1().Nodes().Update(s.Context(), created, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	created.Status = node.Status
	if _, err := client.CoreV1().Nodes().UpdateStatus(s.Context(), created, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	// gpuctl reads from the API server's cache, which is a moment behind.
	err = wait.PollUntilContextTimeout(s.Context(), 10*time.Millisecond, bounds.Patience, true, func(ctx context.Context) (bool, error) {
		seen, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
		return err == nil && len(seen.Spec.Taints) == 0 && len(seen.Status.Conditions) > 0, nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// TestUnhealthyCardsAreNotFree asks every command that tells what is free.
func TestUnhealthyCardsAreNotFree(t *testing.T) {
	s := newSession(t)
	s.gpuNode("sick", "sick-pool", 1, 2)
	if got := s.expect(0, "", "", "describe", "node", "sick"); !strings.Contains(got.stdout, "4, 0 used, 2 free, 2 unhealthy") {
		t.Errorf("describe node says\n%s", got.stdout)
	}
	for _, command := range [][]string{{"get", "nodes", "sick"}, {"get", "pools", "sick-pool"}} {
		got := s.expect(0, "", "", append(command, "-o", "json")...)
		var item struct {
			GPUs struct{ Free, Unhealthy int64 } `json:"gpus"`
		}
		if err := json.Unmarshal([]byte(got.stdout), &item); err != nil {
			t.Fatal(err)
		}
		if item.GPUs.Free != 2 || item.GPUs.Unhealthy != 2 {
			t.Errorf("%v says %+v, want 2 free and 2 unhealthy", command, item)
		}
	}
	if got := s.expect(0, "", "", "top", "nodes", "--pool", "sick-pool", "-o", "json"); !strings.Contains(got.stdout, `"freeGPUs": 2`) {
		t.Errorf("top nodes says\n%s", got.stdout)
	}
}
