package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestAJobGetsTheShareOfItsPool wherever its YAML is sent, but where it has its own words for it.
func TestAJobGetsTheShareOfItsPool(t *testing.T) {
	a := start(t, server.Options{})
	const gpuPools = "/apis/g8s.host/v1alpha1/gpupools"
	pool := `{"apiVersion":"g8s.host/v1alpha1","kind":"GPUPool","metadata":{"name":"lent"},"spec":{"defaults":{"gpuShare":"4Gi"}}}`
	rest := client.CoreV1().RESTClient()
	if err := rest.Post().AbsPath(gpuPools).SetHeader("Content-Type", "application/json").Body([]byte(pool)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rest.Delete().AbsPath(gpuPools, "lent").Do(context.Background()).Error() }) // the cluster ends anyway
	for asks, want := range map[string]string{"": "g8s.host/gpu-share:4Gi", ", gpu-share: 1Gi": "g8s.host/gpu-share:1Gi", ", gpu-share: 0": ""} {
		text := "kind: notebook\njob: {name: lent}\nenvironment: {image: jupyter}\nresources: {pool: lent, gpu: 1" + asks + "}\n"
		got := fmt.Sprint(a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/render", user: member, body: yamlOf(text)})["objects"])
		if has := strings.Contains(got, "g8s.host/gpu-share:"); has != (want != "") || !strings.Contains(got, want) {
			t.Errorf("gpu: 1%s becomes %s, want %q", asks, got, want)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			body := yamlOf(text)
			body["dryRun"] = true
			got := fmt.Sprint(a.want(http.StatusOK, request{method: method, path: "/api/v1/jobs?namespace=team", user: member, body: body})["warnings"])
			if says := strings.Contains(got, "pool lent gives its jobs gpu-share: 4Gi"); says != (asks == "") {
				t.Errorf("%s of gpu: 1%s warns %s", method, asks, got)
			}
		}
	}
	wrong := strings.Replace(pool, "4Gi", "half", 1)
	if err := rest.Put().AbsPath(gpuPools, "lent").SetHeader("Content-Type", "application/json").Body([]byte(wrong)).Do(t.Context()).Error(); err == nil {
		t.Error("a pool may give what is no amount")
	}
}
