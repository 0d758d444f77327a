package spot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// hosts plays the machines of the cloud until the test ends: their nodes register when they run, and fall silent with them.
func (e *env) hosts() {
	e.Helper()
	silent := map[string]bool{}
	e.passes(func(ctx context.Context, now time.Time) {
		for _, m := range cloud.Machines() {
			if err := host(ctx, m, now, silent); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "host %s: %v\n", m.Name, err)
			}
		}
	})
}

// passes has time pass in the cloud until the test ends, and something done again and again.
func (e *env) passes(do func(context.Context, time.Time)) {
	e.Helper()
	ctx, done := context.WithCancel(context.Background())
	ended := make(chan struct{})
	e.Cleanup(func() { done(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			now := time.Now()
			cloud.At(now)
			do(ctx, now)
			time.Sleep(200 * time.Millisecond)
		}
	}()
}

func host(ctx context.Context, m fakecloud.Machine, now time.Time, silent map[string]bool) error {
	switch {
	case !m.Alive(now) && !silent[m.ID]:
		silent[m.ID] = true
		if err := sandbox.StopKubelet(ctx, client, m.Name, false); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	case m.Alive(now) && !m.Ready.After(now):
		node := &corev1.Node{
			// kwok renews the lease of no node that has no label, and each node has this one.
			ObjectMeta: metav1.ObjectMeta{
				Name: m.Name, Labels: map[string]string{corev1.LabelHostname: m.Name}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Spec: corev1.NodeSpec{
				ProviderID: "qcloud:///200000/" + m.ID, Taints: []corev1.Taint{{Key: names.TaintJoining, Effect: corev1.TaintEffectNoSchedule}},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
			}}, Allocatable: corev1.ResourceList{
				names.ResourceGPU: resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("64"),
				corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
			}},
		}
		node.Status.Capacity = node.Status.Allocatable
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// TestMachinesOfTencentCloud has machines taken back without a notice, calls throttled and answers lost, and kills the controller
// again and again. Then it searches all that there is for the values of the Secrets.
func TestMachinesOfTencentCloud(t *testing.T) {
	bounds.SkipInShort(t)
	e := newEnv(t, "tencent")
	e.hosts()
	e.must(`{apiVersion: v1, kind: Secret, metadata: {name: account, namespace: g8s-spot}, stringData: {secretId: ` + canaryID + `, secretKey: "` + canaryKey + `\n"}}`)
	e.must(`{apiVersion: v1, kind: Secret, metadata: {name: join, namespace: g8s-spot}, stringData: {script: "` + canaryScript + `"}}`)
	e.must(`{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: tencent}, spec: {pool: tencent, gpuType: T4, minimum: 3, maximum: 5,
  provider: {name: TencentCloud, region: ap-singapore, credentialsSecret: {name: account}},
  template: {instanceTypes: [GN7, GN8], zones: [{name: a, subnet: s1}, {name: b, subnet: s2}], gpus: 8, image: img-1, network: vpc-1,
    userData: {name: join, key: script}}}}`)
	e.joined(3)
	cloud.Set(fakecloud.Faults{Throttle: 0.1, LoseBefore: 0.1, LoseAfter: 0.1})
	cloud.Stock("GN7", "a", 1)
	var logs []string
	for round := range 5 {
		for i, m := range alive() {
			if i%2 == 0 {
				cloud.Interrupt(m.ID, time.Duration(round)*time.Second)
			}
		}
		time.Sleep(time.Duration(round) * 700 * time.Millisecond)
		logs = append(logs, controller.LogPath())
		if err := controller.Kill(); err != nil {
			t.Fatal(err)
		}
		var err error
		if controller, err = startController(t.Context(), fmt.Sprintf("%s-%d", sandbox.ControllerName, round+2)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		e.eventually("3 to 5 machines to be there", func(context.Context) (bool, error) {
			count := len(alive())
			return count >= 3 && count <= 5, nil
		})
		t.Logf("round %d: enough machines %.1f s after the controller had started again", round, time.Since(began).Seconds())
	}
	cloud.Set(fakecloud.Faults{})
	e.joined(3)
	seen := map[string]bool{}
	for _, m := range cloud.Machines() {
		if seen[m.Name] {
			t.Errorf("machine %s was bought twice", m.Name)
		}
		seen[m.Name] = true
		if m.UserData != canaryScript {
			t.Errorf("machine %s runs %q", m.Name, m.UserData)
		}
	}
	e.gone()
	if left := alive(); len(left) > 0 {
		t.Errorf("%d machines are left", len(left))
	}
	e.searched(append(logs, controller.LogPath()))
}

// alive are the machines that cost money.
func alive() (out []fakecloud.Machine) {
	for _, m := range cloud.Machines() {
		if m.Alive(time.Now()) {
			out = append(out, m)
		}
	}
	return out
}

// searched looks for the values of the Secrets in logs, and in all objects but the Secrets.
func (e *env) searched(logs []string) {
	e.Helper()
	texts := map[string]string{"objects": e.kubectl("get", "spotpools,nodes,pods,events,leases,configmaps", "-A", "-o", "json", "--show-managed-fields")}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			e.Fatalf("the log %s has %d bytes: %v", path, len(text), err)
		}
		texts[filepath.Base(path)] = string(text)
	}
	for where, text := range texts {
		for _, canary := range []string{canaryID, canaryKey, "canary.Token03", "a3ViZWFkbSBqb2lu"} {
			if strings.Contains(text, canary) {
				e.Errorf("%s shows %s", where, canary)
			}
		}
	}
}
