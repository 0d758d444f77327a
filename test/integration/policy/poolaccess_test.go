package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// declare makes a GPUPool say who may use it, until the test ends, and waits until the API server holds pods to it.
func declare(t *testing.T, pool, access string) {
	t.Helper()
	apply := func(name, access string) {
		file := filepath.Join(t.TempDir(), "pool.yaml")
		text := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUPool\nmetadata: {name: %s}\nspec: {access: %s}\n", name, access)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-f", file); err != nil {
			t.Fatal(err)
		}
	}
	apply(pool, access)
	// The one that tells when the API server knows is written after the one that is waited for.
	apply("canary-of-access", "{priorities: [low]}")
	t.Cleanup(func() {
		if _, err := cluster.RunKubectl(context.Background(), "delete", "gpupool", pool, "canary-of-access"); err != nil {
			t.Error(err)
		}
		awaitAccess(t, "")
	})
	awaitAccess(t, "pool canary-of-access takes priority low only")
}

func awaitAccess(t *testing.T, want string) {
	t.Helper()
	eventually(t, "who may use a pool to hold", func(context.Context) bool {
		pod := plain()
		of("canary-of-access")(pod)
		_, err := as(jobController).CoreV1().Pods("default").Create(context.Background(), pod, dryRun)
		return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
	})
}

// TestAGPUPoolSaysWhoMayUseIt, to the API server, and through it to gpuctl create.
func TestAGPUPoolSaysWhoMayUseIt(t *testing.T) {
	if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-f", "../../../manifests/controller/poolaccess.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := cluster.RunKubectl(context.Background(), "delete", "-f", "../../../manifests/controller/poolaccess.yaml"); err != nil {
			t.Error(err)
		}
	})
	mine, other := team(t, nil), team(t, nil)
	bind(t, mine, "g8s:user")
	bind(t, mine, "g8s:reader")
	restrict(t, map[string]string{"schedulers.volcano": "*"})
	gold := of("gold-pool")
	tests := map[string]struct {
		access string
		change func(*corev1.Pod)
		want   string
	}{
		"a pool for the namespace":                  {"{namespaces: [" + other + ", " + mine + "]}", gold, ""},
		"a pool for another namespace":              {"{namespaces: [" + other + "]}", gold, "pool gold-pool is not for namespace " + mine},
		"a namespace whose name begins like it":     {"{namespaces: [" + mine + "-2]}", gold, "pool gold-pool is not"},
		"a pool that says nothing":                  {"{}", gold, ""},
		"another pool":                              {"{namespaces: [" + other + "]}", of("training-pool"), ""},
		"by a label alone":                          {"{namespaces: [" + other + "]}", labelled("gold-pool"), "pool gold-pool is not"},
		"by affinity":                               {"{namespaces: [" + other + "]}", required(corev1.NodeSelectorOpIn, "training-pool", "gold-pool"), "pool gold-pool is not"},
		"another scheduler":                         {"{namespaces: [" + other + "]}", scheduledBy("volcano"), "set schedulerName: gpu-scheduler"},
		"another scheduler and without GPUs":        {"{namespaces: [" + other + "]}", both(scheduledBy("volcano"), withoutGPUs), ""},
		"another scheduler and where it is for all": {"{priorities: [high]}", scheduledBy("volcano"), ""},
		"a priority of the pool":                    {"{priorities: [high, medium]}", both(gold, priority("g8s-medium")), ""},
		"another priority":                          {"{priorities: [high]}", both(gold, priority("g8s-medium")), "pool gold-pool takes priority high only"},
		"no priority at all":                        {"{priorities: [high]}", gold, "pool gold-pool takes priority high only"},
		"another priority and of another pool":      {"{priorities: [high]}", both(of("training-pool"), priority("g8s-low")), ""},
		"both and the namespace is not the pool's":  {"{namespaces: [" + other + "], priorities: [high]}", both(gold, priority("g8s-high")), "pool gold-pool is not"},
		"both and all is as it must be":             {"{namespaces: [" + mine + "], priorities: [high]}", both(gold, priority("g8s-high")), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			declare(t, "gold-pool", test.access)
			pod := plain()
			test.change(pod)
			checkRefusal(t, makePod(t, jobController, mine, pod), test.want)
		})
	}
	t.Run("gpuctl create says it before anything is made", func(t *testing.T) {
		declare(t, "gold-pool", "{namespaces: ["+other+"]}")
		yaml := "kind: training\njob: {name: sft}\nenvironment: {image: busybox}\nresources: {pool: gold-pool, gpu: 1}\n"
		got := gpuctl(t, mine, yaml, "create", "-f", "-")
		if got.code != 5 || !strings.Contains(got.stderr, "pool gold-pool is not for namespace "+mine) {
			t.Errorf("got %+v", got)
		}
	})
}
