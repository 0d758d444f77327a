package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"

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
	gives := func(share string) error {
		body := fmt.Appendf(nil, `{"spec":{"defaults":{"gpuShare":%q}}}`, share)
		return rest.Patch(types.MergePatchType).AbsPath(gpuPools, "lent").Body(body).Do(t.Context()).Error()
	}
	if err := gives("half"); err == nil {
		t.Error("a pool may give what is no amount")
	}
	a.keepsItsShare(func() {
		if err := gives("2Gi"); err != nil {
			t.Fatal(err)
		}
	})
}

// keepsItsShare applies the unchanged YAML of a job after its pool, which gives 4Gi, has come to give 2Gi.
func (a *api) keepsItsShare(change func()) {
	a.Helper()
	const text = "kind: notebook\njob: {name: kept}\nenvironment: {image: jupyter}\nresources: {pool: lent, gpu: 1}\n"
	a.want(http.StatusCreated, request{method: http.MethodPost, path: "/api/v1/jobs?namespace=team", user: member, body: yamlOf(text)})
	change()
	got := a.want(http.StatusOK, request{method: http.MethodPut, path: "/api/v1/jobs?namespace=team", user: member, body: yamlOf(text)})
	if warnings := fmt.Sprint(got["warnings"]); got["status"] != "unchanged" || !strings.Contains(warnings, "it keeps gpu-share: 4Gi, which pool lent gave it: new jobs get 2Gi") {
		a.Errorf("applied again it is %v, with warnings %s", got["status"], warnings)
	}
	diff := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/diff?namespace=team", user: member, body: yamlOf(text)})
	if diff["differs"] != false {
		a.Errorf("it differs: %v", diff["diff"])
	}
}

// TestABatchReadsTheClusterOnce for what its jobs are filled with, and not at all for who may not create them.
func TestABatchReadsTheClusterOnce(t *testing.T) {
	a := start(t, server.Options{})
	documents := make([]string, 30)
	for i := range documents {
		documents[i] = fmt.Sprintf("kind: notebook\njob: {name: many-%d}\nenvironment: {image: jupyter}\nresources: {pool: train, gpu: 1}\n", i)
	}
	body := map[string]any{"yamlContents": documents, "dryRun": true}
	for namespace, most := range map[string]float64{"team": 3, "kube-system": 2} { // the server itself may ask again meanwhile
		before := a.listed("gpupools")
		got := a.do(request{method: http.MethodPost, path: jobs + "/batch?namespace=" + namespace, user: member, body: body})
		if got.status != http.StatusOK && got.status != http.StatusMultiStatus {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
		if lists := a.listed("gpupools") - before; lists > most {
			t.Errorf("a batch of %d jobs into %s lists the pools %v times", len(documents), namespace, lists)
		}
	}
}

// listed is how often the API server has listed a resource.
func (a *api) listed(resource string) float64 {
	a.Helper()
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		a.Fatal(err)
	}
	sum := 0.0
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["resource"] == resource && labels["verb"] == "LIST" {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}
