package card

import (
	"testing"
	"time"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/otherplugin"
)

// showSecondPlugin records what kubelet does when another plugin of the same resource registers later, and what of it is seen.
func showSecondPlugin(t *testing.T, b *bed) string {
	plugin, err := otherplugin.Start(t.Context(), b.node.HostPath(realnode.KubeletDir+"/device-plugins"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plugin.Stop)
	time.Sleep(4 * time.Second)
	with := b.offered(t, g8s.ResourceGPU)
	said := "none"
	if ready := condition.OfNode(b.current(t), g8s.ConditionAgentReady); ready != nil {
		said = text("%s (%s)", ready.Status, ready.Reason)
	}
	b.create(t, withCard(pod("second", "see")))
	asked := "nobody" // the scheduler leaves the node alone
	select {
	case <-plugin.Allocated:
		asked = "the other one"
	case <-time.After(10 * time.Second):
	}
	b.remove(t, "second")
	plugin.Stop()
	time.Sleep(10 * time.Second)
	gone := b.offered(t, g8s.ResourceGPU)
	return text("recorded: kubelet offers %d with both and %d once the other is gone, asks %s for a pod meanwhile, and GPUAgentReady is %s", with, gone, asked, said)
}
