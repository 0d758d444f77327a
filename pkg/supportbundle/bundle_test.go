package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// bundle writes a bundle of what an API server answers, and returns its files by name.
func bundle(t *testing.T, api http.HandlerFunc, more map[string]any) map[string]string {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1})
	b := &Bundler{REST: client.Discovery().RESTClient(), Report: func(phrase.Text) {}, Now: time.Now, Server: "gpuctl-server"}
	var packed bytes.Buffer
	if _, err := b.Write(t.Context(), &packed, more); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		content, failed := io.ReadAll(reader)
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		files[strings.TrimPrefix(header.Name, "gpuctl-support/")] = string(content)
	}
}

func TestWhatGpuctlSaysHasNoSecrets(t *testing.T) {
	type check struct{ Name, Text string }
	more := map[string]any{"doctor.json": []check{{"labels", "api-key: " + planted}}, "version.json": check{"v1", "sig=" + planted}}
	files := bundle(t, http.NotFound, more)
	for file, stays := range map[string]string{"doctor.json": "labels", "version.json": "v1"} {
		if strings.Contains(files[file], planted) || !strings.Contains(files[file], stays) {
			t.Errorf("%s: %s", file, files[file])
		}
	}
}

// TestUsersPushNothingOut has a large cluster: an agent on each of 200 nodes, and users who give their pods our label and names.
func TestUsersPushNothingOut(t *testing.T) {
	item := func(namespace, name string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q}}`, namespace, name)
	}
	var inSystem, agents, everywhere []string
	for i := range 200 {
		agents = append(agents, item("kube-system", fmt.Sprintf("gpu-agent-%03d", i)))
		everywhere = append(everywhere, item("a-user", fmt.Sprintf("gpu-scheduler-%03d", i)))
	}
	inSystem = append(inSystem, item("kube-system", "gpu-scheduler-7d9f-x2x4z"), item("kube-system", "gpu-controller-5c-1"))
	inServer := []string{item("gpuctl-server", "gpuctl-server-6b-1")}
	lists := map[string][]string{
		"/api/v1/namespaces/kube-system/pods": inSystem, "/api/v1/namespaces/gpuctl-server/pods": inServer,
		"/api/v1/pods": slices.Concat(everywhere, agents, inSystem, inServer), "/api/v1/configmaps": {item("a-user", "theirs")},
		"/api/v1/namespaces/kube-system/configmaps": {item("kube-system", "gpu-scheduler-config")},
	}
	files := bundle(t, func(w http.ResponseWriter, r *http.Request) {
		items, known := lists[r.URL.Path]
		if selector := r.URL.Query().Get("labelSelector"); strings.HasSuffix(selector, "/name=gpu-agent") {
			items = agents
		} else if known && !strings.Contains(selector, "/name!=gpu-agent") && strings.HasSuffix(r.URL.Path, "kube-system/pods") {
			items = slices.Concat(agents, items)
		}
		switch {
		case known:
			fmt.Fprintf(w, `{"kind":"List","items":[%s]}`, strings.Join(items, ","))
		case strings.HasSuffix(r.URL.Path, "/log") && r.URL.Query().Get("previous") == "false":
			fmt.Fprint(w, "said")
		default:
			http.NotFound(w, r)
		}
	}, nil)
	logs := map[string]int{}
	for name := range files {
		if rest, ok := strings.CutPrefix(name, "logs/"); ok {
			logs[rest[:strings.LastIndex(rest, "-")]]++
		}
	}
	want := map[string]int{"kube-system/gpu-scheduler-7d9f": 1, "kube-system/gpu-controller-5c": 1, "gpuctl-server/gpuctl-server-6b": 1, "kube-system/gpu-agent": maxAgentPods}
	if !maps.Equal(logs, want) {
		t.Errorf("logs of %v, want %v", logs, want)
	}
	if !strings.Contains(files["index.json"], "190 more pods") {
		t.Errorf("the index does not say what was left: %s", files["index.json"])
	}
	for _, name := range []string{"our-pods", "our-configuration", "server-pods"} {
		if got := files["objects/"+name+".json"]; strings.Contains(got, "a-user") || !strings.Contains(got, "metadata") {
			t.Errorf("%s has what users made, or nothing of ours: %.200s", name, got)
		}
	}
}
