package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// sample is a valid request of one operation, and who may make it. The requests of those who may are dry runs, or name
// what is not there: that they come so far is the proof.
type sample struct {
	query string
	body  any
	// path replaces parameters of the path.
	path map[string]string
	// may are the callers who get past the authorization, beside admin, who may do everything.
	may []string
	// status is what those get who may.
	status int
}

var everyone = []string{nobody, reader, member}

const missingJob = http.StatusNotFound

// samples has one request for each operation of the document. An operation that is not here fails the test.
var samples = map[string]sample{
	"listJobs":      {query: "?namespace=team", may: []string{reader, member}, status: 200},
	"getJob":        {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"listJobPods":   {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"listJobEvents": {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"getJobSpec":    {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"getJobLogs":    {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"followJobLogs": {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"getJobMetrics": {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"explainJob":    {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"explainPod":    {path: map[string]string{"podName": "none"}, query: "?namespace=team", may: []string{reader, member}, status: 404},
	"listQueue":     {query: "?namespace=team", may: []string{reader, member}, status: 200},
	"listPoolQueue": {path: map[string]string{"poolName": "train"}, query: "?namespace=team", may: []string{reader, member}, status: 200},

	"createJob":  {body: dry(training("matrix")), may: []string{member}, status: 200},
	"applyJob":   {body: dry(training("matrix")), may: []string{member}, status: 200},
	"createJobs": {body: map[string]any{"yamlContents": []string{"kind: nonsense"}}, may: everyone, status: 207},
	"changeJob":  {query: "?namespace=team", body: map[string]any{"priority": "low"}, may: []string{reader, member}, status: missingJob},
	"deleteJob":  {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"pauseJob":   {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"resumeJob":  {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"cancelJob":  {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"retryJob":   {query: "?namespace=team", may: []string{reader, member}, status: missingJob},
	"validate":   {body: yamlOf(training("matrix")), may: everyone, status: 200},
	"render":     {body: yamlOf(training("matrix")), may: everyone, status: 200},

	// Who else holds GPUs must be seen, so pods of one namespace will not do.
	"simulate": {body: yamlOf(training("matrix")), status: 200},

	"diff": {body: yamlOf(training("matrix")), may: []string{member}, status: 200},

	"getSelf":     {may: everyone, status: 200},
	"checkAccess": {body: map[string]any{"resource": "jobs", "action": "read"}, may: everyone, status: 200},

	"listPools":  {may: []string{member}, status: 200},
	"getPool":    {path: map[string]string{"poolName": "train"}, may: []string{member}, status: 200},
	"createPool": {body: map[string]any{"name": "new", "nodes": []string{"node-3"}, "dryRun": true}, status: 200},
	"updatePool": {path: map[string]string{"poolName": "train"}, body: map[string]any{"nodes": []string{"node-1"}, "dryRun": true}, status: 200},
	"deletePool": {path: map[string]string{"poolName": "none"}, status: 404},
	"joinPool":   {path: map[string]string{"nodeName": "none"}, body: map[string]any{"pool": "train"}, status: 404},
	"leavePool":  {path: map[string]string{"nodeName": "none", "poolName": "train"}, status: 404},

	// The ledger decides who may know, and here there is none.
	"getUsage":         {may: everyone, status: 404},
	"listFinishedJobs": {may: everyone, status: 404},

	"listSpotPools": {may: []string{member}, status: 200},
	"getSpotPool":   {path: map[string]string{"spotPoolName": "none"}, may: []string{member}, status: 404},

	"listReservations":  {may: []string{member}, status: 200},
	"getReservation":    {path: map[string]string{"reservationName": "none"}, may: []string{member}, status: 404},
	"createReservation": {body: dry(reservationYAML("matrix", "now")), status: 200},
	"applyReservation":  {body: dry(reservationYAML("matrix", "now")), status: 200},
	"deleteReservation": {path: map[string]string{"reservationName": "none"}, may: []string{member}, status: 404}, // who may see them is told

	"drainNode":              {path: map[string]string{"nodeName": "none"}, body: map[string]any{}, status: 404},
	"recoverNode":            {path: map[string]string{"nodeName": "none"}, body: map[string]any{}, status: 404},
	"getMap":                 {may: []string{member}, status: 200},
	"listNodes":              {may: []string{member}, status: 200},
	"listNodeGPUs":           {may: []string{member}, status: 200},
	"getNode":                {path: map[string]string{"nodeName": "node-1"}, may: []string{member}, status: 200},
	"listLabels":             {may: []string{member}, status: 200},
	"listGPULabels":          {may: []string{member}, status: 200},
	"findNodeLabels":         {query: "?key=g8s.host/pool", may: []string{member}, status: 200},
	"listLabelsOfNode":       {path: map[string]string{"nodeName": "node-1"}, may: []string{member}, status: 200},
	"getNodeLabel":           {path: map[string]string{"nodeName": "node-1", "key": "g8s.host%2Fpool"}, may: []string{member}, status: 200},
	"addNodeLabel":           {path: map[string]string{"nodeName": "none"}, body: map[string]any{"key": "a", "value": "b"}, status: 404},
	"setNodeLabel":           {path: map[string]string{"nodeName": "none", "key": "a"}, body: map[string]any{"value": "b"}, status: 404},
	"setNodeLabelByQuery":    {path: map[string]string{"nodeName": "none"}, query: "?key=a", body: map[string]any{"value": "b"}, status: 404},
	"removeNodeLabel":        {path: map[string]string{"nodeName": "none", "key": "a"}, status: 404},
	"removeNodeLabelByQuery": {path: map[string]string{"nodeName": "none"}, query: "?key=a", status: 404},
	"labelNodes":             {query: "?nodeNames=none&key=a&value=b", status: 207},

	"listPresets": {may: everyone, status: 200},

	"listGPUQuotas": {may: []string{member}, status: 200},
	"getGPUQuota":   {path: map[string]string{"gpuQuotaName": "none"}, may: []string{member}, status: 404},

	"listQuotas":  {query: "?namespace=other", status: 404},
	"getQuota":    {path: map[string]string{"namespaceName": "other"}, status: 404},
	"createQuota": {body: dry(quotaYAML("matrix", "other")), status: 200},
	"applyQuota":  {body: dry(quotaYAML("matrix", "other")), status: 200},
	"deleteQuota": {path: map[string]string{"namespaceName": "other"}, status: 404},

	"listNamespaces":  {may: []string{reader, member}, status: 200},
	"getNamespace":    {path: map[string]string{"namespaceName": "none"}, status: 404},
	"deleteNamespace": {path: map[string]string{"namespaceName": "none"}, status: 404},

	"getMetrics": {status: 200},
	"getHealth":  {may: everyone, status: 200},
	"getHealthz": {may: everyone, status: 200},
	"getReady":   {may: everyone, status: 200},
	"getVersion": {may: everyone, status: 200},
}

func dry(content string) map[string]any {
	return map[string]any{"yamlContent": content, "dryRun": true}
}

func quotaYAML(name, namespace string) string {
	return "kind: quota\nquota: {name: " + name + "}\nnamespace:\n  " + namespace + ": {cpu: 10, memory: 20Gi, gpu: 4}\n"
}

// reservationYAML keeps a node that is not there.
func reservationYAML(name, from string) string {
	return "kind: reservation\nmetadata: {name: " + name + "}\nnodes: [none]\nfrom: " + from + "\nfor: 4h\n"
}

// url is the address of a sample of an operation.
func (s *sample) url(path string) string {
	for name, value := range s.path {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return strings.NewReplacer("{jobId}", "none").Replace(path) + s.query
}

// TestWhoMayDoWhat asks every operation of the document as everyone: without a token, with a wrong one, and as each of
// the callers.
func TestWhoMayDoWhat(t *testing.T) {
	a := start(t, server.Options{})
	document := a.document()
	for id := range samples {
		if !slices.ContainsFunc(document.operations, func(o operation) bool { return o.id == id }) {
			t.Errorf("there is no operation %s", id)
		}
	}
	for _, o := range document.operations {
		t.Run(o.id, func(t *testing.T) {
			s, known := samples[o.id]
			if !known {
				t.Fatalf("operation %s has no sample: say who may do it", o.id)
			}
			for _, caller := range []string{"", "wrong-token", nobody, reader, member, admin} {
				want := http.StatusForbidden
				switch {
				case o.public, caller == admin, slices.Contains(s.may, caller):
					want = s.status
				case caller == "" || caller == "wrong-token":
					want = http.StatusUnauthorized
				}
				got := a.do(request{method: o.method, path: s.url(o.path), user: caller, body: s.body})
				if got.status != want {
					t.Errorf("%s as %q: status %d, want %d\n%.400s", o.id, caller, got.status, want, got.body)
				}
				document.check(t, o, got)
			}
		})
	}
}
