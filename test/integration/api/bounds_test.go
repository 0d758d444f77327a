package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestHeadersMakeNobodyElse of a caller: one that asks for it is refused, and those of proxies are not believed.
func TestHeadersMakeNobodyElse(t *testing.T) {
	a := start(t, server.Options{})
	tests := map[string]struct {
		header map[string]string
		want   int
	}{
		"a user":                          {map[string]string{"Impersonate-User": "system:admin"}, 400},
		"a group":                         {map[string]string{"Impersonate-Group": "system:masters"}, 400},
		"a UID":                           {map[string]string{"Impersonate-Uid": "1"}, 400},
		"an attribute":                    {map[string]string{"Impersonate-Extra-Scopes": "all"}, 400},
		"in another case":                 {map[string]string{"impersonate-USER": "system:admin"}, 400},
		"the user of a proxy":             {map[string]string{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}, 403},
		"the user of another proxy":       {map[string]string{"X-Forwarded-User": "system:admin", "X-Forwarded-Email": "admin@example.com"}, 403},
		"the address of a proxy":          {map[string]string{"X-Forwarded-For": "127.0.0.9", "X-Real-Ip": "127.0.0.9", "Forwarded": "for=127.0.0.9"}, 403},
		"another host, scheme and method": {map[string]string{"X-Forwarded-Host": "evil.example.com", "X-Forwarded-Proto": "http", "X-Http-Method": "GET"}, 403},
		"another path":                    {map[string]string{"X-Original-Url": "/healthz", "X-Rewrite-Url": "/healthz"}, 403},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := a.do(request{method: http.MethodDelete, path: jobs + "/x?namespace=other", user: member, header: tc.header})
			if got.status != tc.want || strings.Contains(fmt.Sprint(got.header), "evil") {
				t.Errorf("status %d, want %d: %s %v", got.status, tc.want, got.body, got.header)
			}
		})
	}
	if log := a.log.String(); strings.Contains(log, "127.0.0.9") || strings.Contains(log, "system:admin") || !strings.Contains(log, ":member") {
		t.Errorf("the audit believes a header: %s", log)
	}
}

// TestBodiesAreWhatTheySay, and no more: each of these is refused with what is wrong, and costs next to nothing.
func TestBodiesAreWhatTheySay(t *testing.T) {
	a := start(t, server.Options{})
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write(make([]byte, 64<<20))
	_ = zip.Close()
	good := `{"yamlContent":"kind: pool"}`
	tests := map[string]struct {
		body   string
		header map[string]string
		want   int
		says   string
	}{
		"larger than the limit":            {body: strings.Repeat(" ", 2<<20+1), want: 413, says: "larger than 2097152 bytes"},
		"compressed":                       {body: zipped.String(), header: map[string]string{"Content-Encoding": "gzip"}, want: 415, says: "Content-Encoding"},
		"compressed, and not said":         {body: zipped.String(), want: 400, says: "invalid"},
		"of a type that is not taken":      {body: good, header: map[string]string{"Content-Type": "application/xml"}, want: 415, says: "xml"},
		"of no type that there is":         {body: good, header: map[string]string{"Content-Type": ";;;"}, want: 415, says: ""},
		"a form":                           {body: "yamlContent=x", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, want: 415, says: "form"},
		"nested ten thousand deep":         {body: strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), want: 422, says: "10000 levels deep"},
		"lists ten thousand deep":          {body: strings.Repeat("[", 10_000), want: 422, says: "10000 levels deep"},
		"a name twice":                     {body: `{"yamlContent":"a","yamlContent":"kind: pool"}`, want: 400, says: `duplicate field \"yamlContent\"`},
		"a name twice in YAML":             {body: "yamlContent: a\nyamlContent: b\n", header: map[string]string{"Content-Type": "application/yaml"}, want: 400, says: "already"},
		"NaN":                              {body: `{"yamlContent": NaN}`, want: 400, says: "invalid"},
		"infinity in YAML":                 {body: "yamlContent: .inf\n", header: map[string]string{"Content-Type": "application/yaml"}, want: 400, says: "Inf"},
		"a number for a text":              {body: `{"yamlContent": 123456789012345678901234567890}`, want: 422, says: "expected string"},
		"two values":                       {body: good + good, want: 400, says: "after top-level value"},
		"nothing":                          {body: "", want: 400, says: "required"},
		"a million values":                 {body: `{"yamlContent":[` + strings.Repeat("1,", 1<<20-100) + "1]}", want: 422, says: "values, at most 20000"},
		"commas in a text, which are none": {body: `{"yamlContent":"` + strings.Repeat(",", 100_000) + `"}`, want: 200, says: `"valid":false`},
		"quotes in a text":                 {body: `{"yamlContent":"` + strings.Repeat(`\",[{`, 20_000) + `"}`, want: 200, says: `"valid":false`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := a.do(request{method: http.MethodPost, path: "/api/v1/validate", user: nobody, body: tc.body, header: tc.header})
			if got.status != tc.want || !strings.Contains(string(got.body), tc.says) {
				t.Errorf("status %d, want %d and %q: %.300s", got.status, tc.want, tc.says, got.body)
			}
		})
	}
	t.Run("chunks without end", func(t *testing.T) {
		built, err := (request{method: http.MethodPost, path: "/api/v1/validate", user: nobody}).build(t.Context(), a.URL)
		if err != nil {
			t.Fatal(err)
		}
		built.Body, built.ContentLength = io.NopCloser(endless{}), -1
		built.Header.Set("Content-Type", "application/json")
		answer, err := a.Client().Do(built)
		if err != nil {
			if strings.Contains(err.Error(), "write") || strings.Contains(err.Error(), "reset") {
				return // it was hung up on
			}
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		a.same("the status", http.StatusRequestEntityTooLarge, answer.StatusCode)
	})
	for name, big := range map[string]string{"larger than there are": "1e99", "with a fraction": "1.5", "below one": "-9223372036854775809", "larger than may be": "2147483648"} {
		t.Run("a count that is "+name, func(t *testing.T) {
			got := a.do(request{method: http.MethodPatch, path: jobs + "/x?namespace=team", user: member, body: `{"replicas":` + big + "}"})
			if got.status != 422 && got.status != 400 {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
}

// endless is a body that has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// TestPrometheusIsAskedAboutTheJobAlone, whatever is written in a path or a query, and goes nowhere it is sent.
func TestPrometheusIsAskedAboutTheJobAlone(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it asked elsewhere: %s", r.URL) }))
	defer elsewhere.Close()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.FormValue("query"))
		mu.Unlock()
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}))
	defer prometheus.Close()
	a := start(t, server.Options{Prometheus: prometheus.URL})
	node := newKubelet(a, "asked-node")
	a.create("asked", training("asked"))
	node.run("asked")
	pod := node.pod("asked").Name
	const injected = `"} or vector(1) or {x="`
	for _, path := range []string{
		jobs + "/" + url.PathEscape("asked"+injected) + "/metrics?namespace=team",
		jobs + "/asked/metrics?namespace=" + url.QueryEscape("team"+injected),
		jobs + "/asked/metrics?namespace=team&metric=" + url.QueryEscape("up"+injected),
		jobs + "/asked/metrics?namespace=team&step=" + url.QueryEscape("30s"+injected),
		jobs + "/asked/metrics?namespace=team&startTime=" + url.QueryEscape(injected),
		jobs + "/asked/metrics?namespace=team&url=" + url.QueryEscape(elsewhere.URL),
		jobs + "/.*/metrics?namespace=team", jobs + "/asked%7Cother/metrics?namespace=team",
	} {
		if got := a.do(request{path: path, user: reader}); got.status != 422 && got.status != 404 {
			t.Errorf("%s: status %d: %.300s", path, got.status, got.body)
		}
	}
	if len(asked) > 0 {
		t.Errorf("Prometheus was asked %q", asked)
	}
	a.want(http.StatusBadGateway, request{path: jobs + "/asked/metrics?namespace=team&metric=gpuUtilization", user: reader})
	for _, query := range asked {
		if !strings.Contains(query, `namespace="team",pod=~"`+pod+`"`) || strings.Contains(query, "vector") {
			t.Errorf("Prometheus was asked %s", query)
		}
	}
	if len(asked) == 0 {
		t.Error("Prometheus was not asked at all")
	}
}

// TestOutputIsOfTheJobAlone, and its lines cannot be taken for anything else.
func TestOutputIsOfTheJobAlone(t *testing.T) {
	a := start(t, logOptions)
	node := newKubelet(a, "forging")
	a.create("forging", training("forging"))
	node.run("forging")
	for _, query := range []string{
		"container=..%2F..%2Fsecrets", "container=main%00", "container=main%0d%0aX-Evil:%201", "container=..%2f..%2f..%2fetc%2fpasswd",
		"pod=..%2Fother", "pod=%2e%2e", "pod=forging-x%3Fcontainer=x", "container=main%26previous=true", "container=none",
	} {
		got := a.do(request{path: jobs + "/forging/logs?namespace=team&" + query, user: reader})
		if got.status != 422 || got.header.Get("X-Evil") != "" {
			t.Errorf("%s: status %d: %.300s", query, got.status, got.body)
		}
	}
	node.print("one\r\r\nevent: end\ndata: {}\n\n: forged", `{"type":"end"}`, "last")
	stream := a.events(t.Context(), request{path: jobs + "/forging/logs?namespace=team&follow=true", user: reader})
	var lines []string
	for !slices.Contains(lines, "last") {
		e := a.until(stream, "log", "")
		lines = append(lines, fmt.Sprint(e.data["text"]))
	}
	a.same("the lines", []string{"one\r\r", "event: end", "data: {}", "", ": forged", `{"type":"end"}`, "last"}, lines)
	followed := a.dial(t.Context(), jobs+"/forging/logs/ws?namespace=team", reader)
	for got := ""; got != "last"; {
		got, _ = followed.until("log")["data"].(string)
	}
	node.finish("forging")
	dead := a.events(t.Context(), request{path: jobs + "/forging/logs?namespace=team&follow=true", user: reader})
	a.same("how a job ends that is followed when it is over", "Succeeded", a.until(dead, "end", "").data["status"])
}

// TestCreatingAndDeletingOneNameAtOnce leaves nothing behind, and is never a failure of the server.
func TestCreatingAndDeletingOneNameAtOnce(t *testing.T) {
	rounds := 20
	if os.Getenv("ABUSE") == "all" {
		rounds = 500
	}
	a := start(t, server.Options{})
	var group sync.WaitGroup
	statuses := make(chan int, 4*rounds)
	for _, r := range []request{
		{method: http.MethodPost, path: jobs, user: member, body: yamlOf(inference("contended"))},
		{method: http.MethodPost, path: jobs, user: member, body: yamlOf(inference("contended"))},
		{method: http.MethodDelete, path: jobs + "/contended?namespace=team", user: member},
		{method: http.MethodDelete, path: jobs + "/contended?namespace=team", user: member},
	} {
		group.Go(func() {
			for range rounds {
				got := a.do(r)
				statuses <- got.status
				if got.status >= 500 {
					t.Errorf("%s: status %d: %s", r.method, got.status, got.body)
				}
			}
		})
	}
	group.Wait()
	close(statuses)
	counts := map[int]int{}
	for status := range statuses {
		counts[status]++
	}
	if counts[201] == 0 || counts[200] == 0 {
		t.Errorf("the statuses are %v, so that nothing was contended", counts)
	}
	a.eventually("the name to be free of everything", func() bool {
		a.do(request{method: http.MethodDelete, path: jobs + "/contended?namespace=team", user: member})
		label := metav1.ListOptions{LabelSelector: "g8s.host/job=contended"}
		deployments, err := client.AppsV1().Deployments(team).List(t.Context(), label)
		services, err2 := client.CoreV1().Services(team).List(t.Context(), label)
		leases, err3 := client.CoordinationV1().Leases(team).List(t.Context(), metav1.ListOptions{})
		pods, err4 := client.CoreV1().Pods(team).List(t.Context(), label)
		if err != nil || err2 != nil || err3 != nil || err4 != nil {
			return false
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		return len(deployments.Items) == 0 && len(services.Items) == 0 && len(leases.Items) == 0 && len(pods.Items) == 0
	})
	a.create("contended", inference("contended"))
	time.Sleep(10 * time.Millisecond)
}

// TestEventsComeInPages, the oldest first, each once.
func TestEventsComeInPages(t *testing.T) {
	a := start(t, server.Options{})
	node := newKubelet(a, "eventful-node")
	a.create("eventful", training("eventful"))
	node.run("eventful")
	pod := node.pod("eventful")
	began := time.Now().Add(-time.Hour)
	for i := range 25 {
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("eventful-%d", i), Namespace: team},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: team, Name: pod.Name, UID: pod.UID, APIVersion: "v1"},
			Reason:         fmt.Sprintf("Numbered%02d", i), Type: "Normal", Count: 1,
			FirstTimestamp: metav1.NewTime(began.Add(time.Duration(i) * time.Second)), LastTimestamp: metav1.NewTime(began.Add(time.Duration(i) * time.Second)),
		}
		if _, err := client.CoreV1().Events(team).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for next := ""; ; {
		page := a.want(http.StatusOK, request{path: jobs + "/eventful/events?namespace=team&limit=10&continue=" + next, user: reader})
		items, _ := page["items"].([]any)
		if len(items) > 10 {
			t.Fatalf("a page of %d events", len(items))
		}
		for _, item := range items {
			if reason := fmt.Sprint(item.(map[string]any)["reason"]); strings.HasPrefix(reason, "Numbered") {
				got = append(got, reason)
			}
		}
		if next, _ = page["continue"].(string); next == "" {
			break
		}
	}
	want := make([]string, 25)
	for i := range want {
		want[i] = fmt.Sprintf("Numbered%02d", i)
	}
	a.same("the events", want, got)
}
