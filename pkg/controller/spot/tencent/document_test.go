package tencent

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

var update = flag.Bool("update", false, "write the table of docs/from-spotpool.md")

const (
	pageFile = "../../../../docs/from-spotpool.md"
	theirs   = "testdata/spotpool.yaml"
	ours     = "../../../../examples/spot/from-spotpool.yaml"
	begin    = "<!-- sent: written by go test ./pkg/controller/spot/tencent -update -->\n"
	end      = "<!-- end of sent -->"
	secret   = "xxx" // the published one's secretId and secretKey
)

// differences are the fields that the cloud is sent otherwise, or by one of the two alone, each with the reason. A row that is not
// needed is a mistake, and so is a difference without a row. The values are patterns, "" for a field that is not sent.
var differences = []struct{ action, field, theirs, ours, why string }{
	{"*", "SignatureMethod", "HmacSHA1", "TC3-HMAC-SHA256", "the newer signature covers the whole body, and ends after 5 minutes"},
	{"*", "Language", "zh-CN", "en-US", "its messages are not shown anyway, its codes are"},
	{"RunInstances", "InstanceCount", "2", "1", "one order for each machine, so that each has a token"},
	{"RunInstances", "ClientToken", "", "[0-9a-f]{40}",
		"it follows from the machine, so that asking again buys nothing twice"},
	{"RunInstances", "InstanceName", "spotpool[0-9]{14}", "spotpool-sample-[0-9a-f]{8}", "the name of the machine, which is that of its node"},
	{"RunInstances", "HostName", "", "spotpool-sample-[0-9a-f]{8}", "the name of the machine, which is that of its node"},
	{"RunInstances", "LoginSettings.Password", "Password123", "", "one password for all machines, known to every reader: there is none"},
	{"RunInstances", "LoginSettings.KeyIds.0", "", "skey-xxx", "`keyPairs`; without, `KeepImageLogin`"},
	{"RunInstances", "UserData", "", "[A-Za-z0-9+/=]+", "`userData`, by which a machine joins the cluster"},
	{"RunInstances", "TagSpecification.0.ResourceType", "", "instance", "machines carry tags, so that those of others are left alone"},
	{"RunInstances", "TagSpecification.0.Tags.0.Key", "", "g8s.host/cluster", "a tag of the machine"},
	{"RunInstances", "TagSpecification.0.Tags.0.Value", "", ".+", "a tag of the machine"},
	{"RunInstances", "TagSpecification.0.Tags.1.Key", "", "g8s.host/spot-pool", "a tag of the machine"},
	{"RunInstances", "TagSpecification.0.Tags.1.Value", "", "spotpool-sample", "a tag of the machine"},
	{"RunInstances", "TagSpecification.0.Tags.2.Key", "", "g8s.host/machine", "a tag of the machine"},
	{"RunInstances", "TagSpecification.0.Tags.2.Value", "", "spotpool-sample-[0-9a-f]{8}", "a tag of the machine"},
	{"DescribeInstances", "Filters.0.Name", "", "tag:g8s.host/cluster", "the machines of this cluster alone; the other takes every instance of the region for its own, and ends any"},
	{"DescribeInstances", "Filters.0.Values.0", "", ".+", "the cluster"},
	{"DescribeInstances", "Filters.1.Name", "", "tag:g8s.host/spot-pool", "the machines of this SpotPool alone"},
	{"DescribeInstances", "Filters.1.Values.0", "", "spotpool-sample", "the SpotPool"},
	{"DescribeInstances", "Limit", "", "100", "all pages are read; the other sees the first 20 instances alone"},
	{"DescribeInstances", "Offset", "", "0", "the page"},
}

// TestTheCloudIsSentWhatThePublishedSpotpoolSends compares each field of each request of the two, from the two examples of the page.
func TestTheCloudIsSentWhatThePublishedSpotpoolSends(t *testing.T) {
	service := &fakecloud.Tencent{Cloud: fakecloud.New(1, time.Now()), Keys: map[string]string{secret: secret}, Region: "ap-singapore"}
	recorder, server := newRecorder(t, service)
	published := theirRequests(t, recorder, strings.TrimPrefix(server.URL, "http://"))
	sentByUs := ourRequests(t, recorder, server.URL)
	used := map[int]bool{}
	var table []string
	for _, action := range []string{"RunInstances", "DescribeInstances", "TerminateInstances"} {
		a, b := published[action], sentByUs[action]
		if a == nil || b == nil {
			t.Fatalf("%s: sent were %v and %v", action, a, b)
		}
		names := map[string]bool{}
		for name := range a {
			names[name] = true
		}
		for name := range b {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			table = append(table, compare(t, action, name, a[name], b[name], used))
		}
	}
	for i, row := range differences {
		if !used[i] {
			t.Errorf("%s %s is sent alike: the row is of no use", row.action, row.field)
		}
	}
	checkTable(t, strings.Join(table, ""))
}

// compare compares a field, and returns its row of the page.
func compare(t *testing.T, action, name, theirs, ours string, used map[int]bool) string {
	t.Helper()
	if theirs == ours {
		return fmt.Sprintf("| `%s` | `%s` | %s | the same | |\n", action, name, code(theirs))
	}
	for i, row := range differences {
		if row.field != name || row.action != "*" && row.action != action {
			continue
		}
		if !regexp.MustCompile("^("+row.theirs+")$").MatchString(theirs) || !regexp.MustCompile("^("+row.ours+")$").MatchString(ours) {
			t.Errorf("%s %s: they send %q, we %q, and the row has %q and %q", action, name, theirs, ours, row.theirs, row.ours)
		}
		used[i] = true
		return fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |\n", action, name, code(row.theirs), code(row.ours), row.why)
	}
	t.Errorf("%s %s: they send %q, we %q, and no row says why", action, name, theirs, ours)
	return ""
}

func code(value string) string {
	if value == "" {
		return "–"
	}
	return "`" + value + "`"
}

// theirRequests are the fields of what the published operator sends for its own example, by action.
func theirRequests(t *testing.T, recorder *recorder, endpoint string) map[string]map[string]string {
	t.Helper()
	var pool Spotpool
	decode(t, theirs, &pool)
	reconciler := &SpotpoolReconciler{endpoint: endpoint}
	if err := reconciler.runInstances(&pool, pool.Spec.Minimum); err != nil {
		t.Fatal(err)
	}
	if err := reconciler.terminateInstances(&pool, 2); err != nil {
		t.Fatal(err)
	}
	return byAction(t, recorder.take())
}

// ourRequests are those of ours.
func ourRequests(t *testing.T, recorder *recorder, endpoint string) map[string]map[string]string {
	t.Helper()
	var pool g8s.SpotPool
	decode(t, ours, &pool)
	connect, err := Connect(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := connect(spot.Account{
		Owner: spot.Owner{Cluster: "uid-of-the-cluster", Pool: pool.Name}, Provider: pool.Spec.Provider, Template: pool.Spec.Template,
		Credentials: map[string]spot.Secret{"secretId": spot.NewSecret(secret), "secretKey": spot.NewSecret(secret)}, UserData: spot.NewSecret(script),
	})
	if err != nil {
		t.Fatal(err)
	}
	plan := spot.Decide(spot.Facts{Pool: &pool, Answered: true, Now: time.Now()})
	if len(plan.Launch) != int(pool.Spec.Minimum) {
		t.Fatalf("%d machines are ordered", len(plan.Launch))
	}
	var ids []string
	for _, order := range plan.Launch {
		id, err := cloud.Launch(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	instances, err := cloud.List(t.Context(), nil)
	if err != nil || len(instances) != 2 || !strings.HasPrefix(instances[0].PublicIP, "203.0.113.") {
		t.Fatalf("got %+v, %v", instances, err)
	}
	if err := cloud.Terminate(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	return byAction(t, recorder.take())
}

// byAction are the fields of the first request of each action. Later ones may differ in what is new for each machine alone.
func byAction(t *testing.T, requests []sent) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, request := range requests {
		if out[request.Action] == nil {
			out[request.Action] = request.Fields
			continue
		}
		if a, b := slices.Sorted(maps.Keys(out[request.Action])), slices.Sorted(maps.Keys(request.Fields)); !slices.Equal(a, b) {
			t.Errorf("two requests %s have the fields %v and %v", request.Action, a, b)
		}
	}
	return out
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkTable compares the table of the page, or writes it.
func checkTable(t *testing.T, rows string) {
	t.Helper()
	text := read(t, pageFile)
	before, rest, ok := strings.Cut(text, begin)
	old, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no table", pageFile)
	}
	table := "| request | field | Spotpool | SpotPool | why |\n|---|---|---|---|---|\n" + rows
	if old == table {
		return
	}
	if !*update {
		t.Errorf("the table of %s is another; -update writes it:\n%s", pageFile, table)
		return
	}
	if err := os.WriteFile(pageFile, []byte(before+begin+table+end+after), 0o644); err != nil { //nolint:gosec // a page
		t.Fatal(err)
	}
}

// TestThePageHasBothExamples, as they are tested.
func TestThePageHasBothExamples(t *testing.T) {
	text := read(t, pageFile)
	for _, file := range []string{theirs, ours} {
		if example := read(t, file); !strings.Contains(text, "```yaml\n"+example+"```\n") {
			t.Errorf("%s does not have %s", pageFile, file)
		}
	}
}

var rowPattern = regexp.MustCompile("(?m)^\\| `((?:spec|status)\\.[^`]+)` \\| ([^|]+) \\|")

// TestThePageHasEveryField: each field of the published kind has a row, no other has, and what stands for it is a field of ours.
func TestThePageHasEveryField(t *testing.T) {
	want := fieldsOf(reflect.TypeFor[SpotpoolSpec](), "spec.")
	want = append(want, fieldsOf(reflect.TypeFor[SpotpoolStatus](), "status.")...)
	own := append(fieldsOf(reflect.TypeFor[g8s.SpotPoolSpec](), "spec."), fieldsOf(reflect.TypeFor[g8s.SpotPoolStatus](), "status.")...)
	var got []string
	for _, row := range rowPattern.FindAllStringSubmatch(read(t, pageFile), -1) {
		got = append(got, row[1])
		for _, field := range regexp.MustCompile("`((?:spec|status)\\.[^`]+)`").FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(own, field[1]) {
				t.Errorf("%s stands for %s, and there is no such field", field[1], row[1])
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the page has the fields\n%v, want\n%v", got, want)
	}
}

// fieldsOf are the fields of a type by their paths, with [] behind lists. What Kubernetes itself has the fields of ends a path.
func fieldsOf(kind reflect.Type, prefix string) (out []string) {
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		path := prefix + name
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
			if inner.Kind() == reflect.Struct && !strings.HasPrefix(inner.PkgPath(), "k8s.io/") {
				path += "[]"
			}
		}
		if inner.Kind() != reflect.Struct || strings.HasPrefix(inner.PkgPath(), "k8s.io/") {
			out = append(out, path)
			continue
		}
		if name == "" { // its fields are those of what it is in
			out = append(out, fieldsOf(inner, prefix)...)
			continue
		}
		out = append(out, fieldsOf(inner, path+".")...)
	}
	return out
}
