package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/pkg/server"
)

// gpuctl runs the command line as the cluster's administrator, and returns its exit code and what it says.
func (a *api) gpuctl(stdin string, args ...string) (code int, stdout, stderr string) {
	a.Helper()
	streams, out, errors := cli.TestIOStreams(stdin)
	code = cli.Run(a.Context(), cli.NewFactory(streams), append([]string{"gpuctl", "--kubeconfig", cluster.Kubeconfig()}, args...))
	return code, out.String(), errors.String()
}

// TestALabelIsTheSameByBothSurfaces labels one node with gpuctl and another by the API, with the same words.
func TestALabelIsTheSameByBothSurfaces(t *testing.T) {
	a := start(t, server.Options{})
	before := a.labelsOf("node-1", "node-2")
	for _, word := range []string{
		"accelerator", "gpu-memory", "gpu-count", "gpu-interconnect", "rack", "gpu-type", "gpuType", "pool", "team", "example.com/team", "runwhere.ai/rack",
	} {
		t.Run(word, func(t *testing.T) {
			a := &api{T: t, Server: a.Server, log: a.log}
			code, _, stderr := a.gpuctl("", "label", "node", "node-1", word+"=same", "--allow-any-key", "--overwrite")
			if code != 0 {
				t.Fatalf("gpuctl label %s ends with %d: %s", word, code, stderr)
			}
			got := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/nodes/node-2/labels", user: admin,
				body: map[string]any{"key": word, "value": "same", "overwrite": true}})
			after := a.labelsOf("node-1", "node-2")
			byCLI, byAPI := added(before["node-1"], after["node-1"]), added(before["node-2"], after["node-2"])
			if diff := cmp.Diff(byCLI, byAPI); diff != "" {
				t.Errorf("labels by gpuctl and by the API (-gpuctl +API):\n%s", diff)
			}
			if diff := cmp.Diff(fmt.Sprint(byAPI), fmt.Sprint(got["label"])); diff != "" {
				t.Errorf("the API says something else than it did (-did +says):\n%s", diff)
			}
			a.want(http.StatusOK, request{path: "/api/v1/nodes/node-2/labels/" + escaped(word), user: admin})
			a.restore(before)
		})
	}
	for _, word := range []string{"kubernetes.io/os", "a b", "example.com/"} {
		code, _, _ := a.gpuctl("", "label", "node", "node-1", word+"=x", "--allow-any-key", "--overwrite")
		if code != 2 {
			t.Errorf("gpuctl label %q ends with %d, want 2", word, code)
		}
		a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: "/api/v1/nodes/node-2/labels", user: admin,
			body: map[string]any{"key": word, "value": "x", "overwrite": true}})
	}
}

// TestTheAPIServerIsAskedByBothSurfaces has a job for which there is room, and a quota that never lets it in.
func TestTheAPIServerIsAskedByBothSurfaces(t *testing.T) {
	a := start(t, server.Options{})
	bound := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tight"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("0")},
	}}
	if _, err := client.CoreV1().ResourceQuotas(other).Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().ResourceQuotas(other).Delete(context.Background(), "tight", metav1.DeleteOptions{})
	})
	const never = "the namespace may have 0 (quota tight): it never fits"
	a.eventually("the quota to be counted", func() bool {
		got, err := client.CoreV1().ResourceQuotas(other).Get(t.Context(), "tight", metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) > 0
	})
	yaml := strings.ReplaceAll(training("held"), "namespace: "+team, "namespace: "+other)
	answer := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/simulate?namespace=" + other, user: admin, body: yamlOf(yaml)})
	job := answer["jobs"].([]any)[0].(map[string]any)
	a.same("the cause", "QuotaExceeded", job["cause"])
	a.same("whether it starts", false, job["starts"])
	refused := a.want(http.StatusForbidden, request{method: http.MethodPost, path: jobs + "?namespace=" + other, user: admin,
		body: map[string]any{"yamlContent": yaml, "dryRun": true}})
	if text, _ := refused["error"].(string); !strings.Contains(text, never) {
		t.Errorf("the dry run says %q, want %q", text, never)
	}
	created := a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs + "?namespace=" + other, user: admin, body: yamlOf(yaml)})
	if text := fmt.Sprint(created["warnings"]); !strings.Contains(text, never) {
		t.Errorf("the warnings are %s, want %q", text, never)
	}
	a.eventually("the queue to show the job", func() bool {
		list := a.want(http.StatusOK, request{path: "/api/v1/queue?namespace=" + other, user: admin})
		for _, item := range list["items"].([]any) {
			entry := item.(map[string]any)
			if entry["name"] == "held" {
				return entry["position"] == 0.0 && entry["never"] == true && entry["cause"] == "QuotaExceeded"
			}
		}
		return false
	})
	a.do(request{method: http.MethodDelete, path: jobs + "/held?namespace=" + other, user: admin})
}

func escaped(key string) string {
	out := ""
	for _, r := range key {
		if r == '/' {
			out += "%2F"
			continue
		}
		out += string(r)
	}
	return out
}

// labelsOf reads the labels of nodes.
func (a *api) labelsOf(nodes ...string) map[string]map[string]string {
	a.Helper()
	out := map[string]map[string]string{}
	for _, name := range nodes {
		node, err := client.CoreV1().Nodes().Get(a.Context(), name, metav1.GetOptions{})
		if err != nil {
			a.Fatal(err)
		}
		out[name] = node.Labels
	}
	return out
}

// restore gives nodes the labels that they had.
func (a *api) restore(labels map[string]map[string]string) {
	a.Helper()
	for name, before := range labels {
		node, err := client.CoreV1().Nodes().Get(a.Context(), name, metav1.GetOptions{})
		if err != nil {
			a.Fatal(err)
		}
		node.Labels = before
		if _, err := client.CoreV1().Nodes().Update(a.Context(), node, metav1.UpdateOptions{}); err != nil {
			a.Fatal(err)
		}
	}
}

// added are the labels that are new, or have another value.
func added(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range after {
		if before[key] != value {
			out[key] = value
		}
	}
	return out
}
