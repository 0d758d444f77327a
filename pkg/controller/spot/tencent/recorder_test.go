package tencent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/common"

	"g8s.host/gpu-scheduler/test/fakecloud"
)

// sent is a request of the API, whichever signature it has: its fields are named as the older one names them.
type sent struct {
	Action string
	Fields map[string]string
}

// recorder is a service that keeps what it is sent. Requests of the newer signature are answered, and their signatures checked, by
// fakecloud; those of the older one here.
type recorder struct {
	*testing.T
	service *fakecloud.Tencent
	keys    map[string]string
	sent    []sent
}

func newRecorder(t *testing.T, service *fakecloud.Tencent) (*recorder, *httptest.Server) {
	t.Helper()
	r := &recorder{T: t, service: service, keys: service.Keys}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server
}

// take returns what was sent since it was last called.
func (r *recorder) take() []sent {
	out := r.sent
	r.sent = nil
	return out
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.Error(err)
		return
	}
	if q.Header.Get("X-Tc-Action") == "" {
		r.serveOld(w, q, body)
		return
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		r.Errorf("%v in %s", err, body)
	}
	method, _, _ := strings.Cut(q.Header.Get("Authorization"), " ")
	out := sent{Action: q.Header.Get("X-Tc-Action"), Fields: map[string]string{
		"Version": q.Header.Get("X-Tc-Version"), "Region": q.Header.Get("X-Tc-Region"), "Language": q.Header.Get("X-Tc-Language"), "SignatureMethod": method,
	}}
	flatten(out.Fields, "", fields)
	r.sent = append(r.sent, out)
	q.Body = io.NopCloser(bytes.NewReader(body))
	r.service.ServeHTTP(w, q)
}

// flatten names fields as forms do: Placement.Zone, SecurityGroupIds.0.
func flatten(out map[string]string, prefix string, value any) {
	name := strings.TrimSuffix(prefix, ".")
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(out, prefix+key+".", inner)
		}
	case []any:
		for i, inner := range value {
			flatten(out, prefix+strconv.Itoa(i)+".", inner)
		}
	default:
		out[name] = fmt.Sprint(value)
	}
}

// serveOld checks and answers a request that is signed as a form.
func (r *recorder) serveOld(w http.ResponseWriter, q *http.Request, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		r.Errorf("%v in %s", err, body)
	}
	fields := map[string]string{}
	for key := range form {
		fields[key] = form.Get(key)
	}
	signature := fields["Signature"]
	delete(fields, "Signature")
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, key+"="+fields[key])
	}
	text := q.Method + q.Host + q.URL.Path + "?" + strings.Join(parts, "&")
	if key, ok := r.keys[fields["SecretId"]]; !ok || common.Sign(text, key, fields["SignatureMethod"]) != signature {
		r.Errorf("the signature does not fit: %s", text)
	}
	action := fields["Action"]
	for _, each := range []string{"Action", "SecretId", "Nonce", "Timestamp", "RequestClient"} { // those of the protocol, and new for each call
		delete(fields, each)
	}
	r.sent = append(r.sent, sent{Action: action, Fields: fields})
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, oldAnswers[action])
}

var oldAnswers = map[string]string{
	"RunInstances": `{"Response": {"InstanceIdSet": ["ins-000001", "ins-000002"], "RequestId": "r"}}`,
	"DescribeInstances": `{"Response": {"TotalCount": 2, "RequestId": "r", "InstanceSet": [
		{"InstanceId": "ins-000001", "InstanceState": "RUNNING", "PublicIpAddresses": ["203.0.113.1"]},
		{"InstanceId": "ins-000002", "InstanceState": "PENDING", "PublicIpAddresses": ["203.0.113.2"]}]}}`,
	"TerminateInstances": `{"Response": {"RequestId": "r"}}`,
}
