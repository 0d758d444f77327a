package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
)

// hostile is one kind of request of the attacker.
type hostile struct {
	// call is the nth of them.
	call func(n int) call
	// want are the statuses that it may get, of which the first has to come.
	want []int
	// queues is for requests of which so few of one caller may wait, or which count as so many, that most are 429. No other is: what is refused costs
	// nothing, and would show nothing.
	queues bool
	// replayed is for requests with a key, of which each that is sent again gets the answer of before.
	replayed bool
	// says is in the answers with the first of these statuses.
	says string
	// seldom is for requests of which each takes long: a tenth of them are sent.
	seldom bool
}

func always(c call) func(int) call { return func(int) call { return c } }

func post(path, body string) call { return call{method: http.MethodPost, path: path, body: body} }

// hostiles are the requests that once took the server's memory, or its cores, and their relatives.
func hostiles() map[string]hostile {
	const invalid, ok = http.StatusUnprocessableEntity, http.StatusOK
	bomb := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 3000) + "]\n"
	described := "kind: training\njob: {name: bomb, description: &a \"" + strings.Repeat("x", 50<<10) + "\"}\nenvironment: {image: busybox, command: [" +
		strings.TrimSuffix(strings.Repeat("*a,", 2000), ",") + "]}\nresources: {gpu: 1, cpu: 1, memory: 1Gi}\n"
	const almost = 926 << 10
	numbers := `{"name":"x","nodes":[` + strings.TrimSuffix(strings.Repeat("1,", 1<<20-100), ",") + `]}`
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write(make([]byte, 64<<20))
	_ = zip.Close()
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "&nodeNames=n%d", i)
	}
	gangs := func(count int) string { // of 64 pods each
		documents := make([]string, count)
		for i := range documents {
			documents[i] = strings.Replace(training(fmt.Sprint("large-", i)), "resources: {", "resources: {nodes: 64, ", 1)
		}
		return strings.Join(documents, "---\n")
	}
	return map[string]hostile{
		"aliases of a long text to be validated":    {call: always(post("/api/v1/validate", quoted(bomb))), want: []int{ok}, says: "alias"},
		"aliases of a long text to be rendered":     {call: always(post("/api/v1/render", quoted(described))), want: []int{invalid}, says: "alias"},
		"aliases in a body of YAML":                 {call: always(call{method: http.MethodPost, path: "/api/v1/validate", kind: "application/yaml", body: bomb}), want: []int{400, invalid}, says: "alias"},
		"quotes that do not end":                    {call: always(post("/api/v1/validate", quoted(strings.Repeat("\"a\n", almost/3)))), want: []int{ok}, says: `"valid":false`},
		"quotes that do not end, in many documents": {call: always(post("/api/v1/validate", quoted(strings.Repeat(strings.Repeat("a: \"\n", 20<<10)+"---\n", 8)))), want: []int{ok}, says: `"valid":false`},
		"brackets in brackets":                      {call: always(post("/api/v1/validate", quoted(strings.Repeat(strings.Repeat("[", 110<<10)+"\n---\n", 8)))), want: []int{ok}, says: `"valid":false`},
		"many keys":                                 {call: always(post("/api/v1/validate", quoted(strings.Repeat("kind: training\n"+strings.Repeat("a: b\n", 20<<10)+"---\n", 8)))), want: []int{ok}, says: `"valid":false`},
		"many documents":                            {call: always(post("/api/v1/validate", quoted(strings.Repeat("---\nkind: x\n", 900)))), want: []int{ok}, says: `"valid":false`},
		"many values in a body of YAML":             {call: always(call{method: http.MethodPost, path: "/api/v1/validate", kind: "application/yaml", body: "yamlContent: [" + strings.Repeat("a,", 55<<10) + "]"}), want: []int{400, invalid}},
		"a million numbers where texts should be":   {call: always(post("/api/v1/pools", numbers)), want: []int{invalid}, says: "values"},
		"a body that is too large":                  {call: always(post("/api/v1/validate", strings.Repeat(" ", 3<<20))), want: []int{http.StatusRequestEntityTooLarge}, says: "larger than"},
		"a body that unfolds":                       {call: always(call{method: http.MethodPost, path: "/api/v1/validate", body: zipped.String(), header: map[string]string{"Content-Encoding": "gzip"}}), want: []int{http.StatusUnsupportedMediaType}, says: "Content-Encoding"},
		"keys of idempotency that are new each time": {call: func(n int) call {
			c := post("/api/v1/render", quoted(strings.Replace(training("kept"), "image: busybox", "image: busybox, env: [{name: A, value: "+strings.Repeat("v", 60<<10)+"}]", 1))) // answers that are small enough to be remembered
			c.header = map[string]string{"Idempotency-Key": fmt.Sprint(n)}
			return c
		}, want: []int{ok}, says: "kept", replayed: true},
		"labels of a thousand nodes":                          {call: always(post("/api/v1/nodes/labels/batch?key=a&value=b"+many.String(), "")), want: []int{http.StatusForbidden}, says: "may not patch nodes"},
		"a hundred jobs that may not be":                      {call: always(post("/api/v1/jobs/batch?namespace=kube-system", batch(100))), want: []int{http.StatusMultiStatus}, says: "may not create"},
		"simulations of too many pods":                        {call: always(post("/api/v1/simulate", quoted(gangs(10)))), want: []int{invalid}, says: "at most 500", seldom: true},
		"simulations of many pods":                            {call: always(post("/api/v1/simulate", quoted(gangs(7)))), want: []int{ok, http.StatusGatewayTimeout}, says: "large-0", seldom: true, queues: true},
		"metrics from a Prometheus that answers with 200 MiB": {call: always(call{path: "/api/v1/jobs/printing/metrics?namespace=team"}), want: []int{http.StatusBadGateway}, says: "more than one series"},
		"output that is one line without end":                 {call: always(call{path: "/api/v1/jobs/printing/logs?namespace=team&tail=5000"}), want: []int{invalid}, says: "larger than", seldom: true, queues: true},
		"an explanation":                                      {call: always(call{path: "/api/v1/jobs/quiet/explain?namespace=team"}), want: []int{ok}, queues: true},
		"a job whose submitted YAML unfolds":                  {call: always(call{path: "/api/v1/jobs/stored?namespace=team"}), want: []int{ok}, says: "stored"},
	}
}

func batch(n int) string {
	documents := make([]string, n)
	for i := range documents {
		documents[i] = fmt.Sprintf("%q", strings.Replace(training(fmt.Sprint("b", i)), ", namespace: team", "", 1))
	}
	return `{"yamlContents":[` + strings.Join(documents, ",") + "]}"
}

// TestNoRequestTakesTheServerFromOthers: one caller sends many of each kind, several at a time.
func TestNoRequestTakesTheServerFromOthers(t *testing.T) {
	bounds.SkipInShort(t)
	chunk := bytes.Repeat([]byte(`{"metric":{},"values":[[1,"1"]]},`), 1<<15)
	flood := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[`))
		for range 200 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(func() { flood.CloseClientConnections(); flood.Close() })
	makeJobs(t)
	g := launch(t, "--prometheus-url="+flood.URL)
	idle := g.latency(300, closed())
	t.Logf("idle: the neighbour waits %s at the 99th percentile, the server takes %d MiB", idle, g.resident("VmRSS")>>20)
	kinds := hostiles()
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { (&target{T: t, Server: g.Server, ca: g.ca}).attack(kinds[name], idle) })
	}
}

// attack sends requests of a kind while the neighbour calls.
func (g *target) attack(kind hostile, idle time.Duration) {
	count := 24
	switch {
	case abuse.All(): // also the seldom ones: of the few calls that a neighbour makes in two seconds the 99th percentile is the slowest
		count = 1000
	case kind.seldom:
		count /= 10
	}
	if abuse.All() { // what else the machine does changes from one minute to the next
		idle = g.latency(1000, closed()) // of 200, the 99th percentile is between 8 and 33 ms
	}
	done := make(chan struct{})
	var waited time.Duration
	var both sync.WaitGroup
	both.Go(func() { waited = g.latency(0, done) })
	began, busy := time.Now(), g.cpu()
	statuses := g.bombard(kind, count)
	took := time.Since(began)
	cores := (g.cpu() - busy).Seconds() / took.Seconds()
	close(done)
	both.Wait()
	g.Logf("%d requests in %s, statuses %v; the neighbour waits %s, idle it is %s; the server takes %.2f cores and %d MiB, at most it took %d",
		count, took.Round(time.Millisecond), statuses, waited, idle, cores, g.resident("VmRSS")>>20, g.resident("VmHWM")>>20)
	if most := g.resident("VmHWM"); most > maxResident {
		g.Errorf("the server took %d MiB, at most it may take %d", most>>20, maxResident>>20)
	}
	limit := abuse.OthersWait()
	if abuse.All() {
		limit = 2 * idle
	}
	if waited > limit {
		g.Errorf("the neighbour waits %s, at most %s is meant; idle it is %s", waited, limit, idle)
	}
	if statuses[kind.want[0]] == 0 {
		g.Errorf("no request got %d", kind.want[0])
	}
	if kind.replayed {
		g.replays(kind.call(count))
	}
}

// replays sends a request again: its answer is the one of before, and so was remembered.
func (g *target) replays(c call) {
	g.Helper()
	browser := g.browser(attacker)
	defer browser.CloseIdleConnections()
	got, err := g.ask(g.Context(), browser, attacker, c)
	if err != nil || got.header.Get("Idempotency-Replayed") != "true" {
		g.Errorf("status %d, headers %v, error %v: want the answer of before", got.status, got.header, err)
	}
	c.body = strings.Replace(c.body, "kept", "other", 1)
	if got, err = g.ask(g.Context(), browser, attacker, c); err != nil || got.status != http.StatusUnprocessableEntity {
		g.Errorf("another request with the key: status %d, error %v", got.status, err)
	}
}

// bombard sends requests, sixteen at a time, and counts what they get.
func (g *target) bombard(kind hostile, count int) map[int]int {
	browser := g.browser(attacker)
	defer browser.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(g.Context(), 8*time.Minute)
	defer cancel()
	pace := time.NewTicker(time.Second / server.DefaultRate)
	defer pace.Stop()
	var next atomic.Int64
	var mu sync.Mutex
	statuses := map[int]int{}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for n := next.Add(1); int(n) <= count; n = next.Add(1) {
				<-pace.C
				status, text, err := g.send(ctx, browser, attacker, kind.call(int(n)))
				if err != nil && strings.Contains(err.Error(), "write: ") { // it was refused before all of it was sent
					status, err = http.StatusRequestEntityTooLarge, nil
				}
				mu.Lock()
				statuses[status]++
				mu.Unlock()
				if err != nil || !slices.Contains(kind.want, status) && (!kind.queues || status != http.StatusTooManyRequests) {
					g.Errorf("status %d, error %v: %.300s", status, err, text)
					return
				}
				if status == kind.want[0] && text != "" && !strings.Contains(text, kind.says) {
					g.Errorf("the answer does not say %q: %.300s", kind.says, text)
				}
			}
		})
	}
	group.Wait()
	return statuses
}
