package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/rights"
)

func TestCreateGetDelete(t *testing.T) {
	s := newSession(t)
	got := s.expect(0, "gpuctl get job sft", training("sft"), "create", "-f", "-")
	if got.stdout != "training/sft created\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "get", "jobs", "-o", "name"); got.stdout != "training/sft\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
	if got := s.expect(0, "", "", "describe", "job", "sft"); !strings.Contains(got.stdout, "GPUs:        1 per pod") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(3, `"nothing" not found`, "", "get", "job", "nothing")
	s.expect(3, `"nothing"`, "", "describe", "job", "nothing")
	s.expect(3, `"nothing"`, "", "logs", "nothing")
	s.expect(3, `"nothing"`, "", "delete", "nothing")
	s.expect(0, "", "", "delete", "sft")
	s.wantObjects(0)
	s.expect(0, "No jobs found.", "", "get", "jobs")
}

func TestTheServiceBelongsToItsJob(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", notebook("lab"), "create", "-f", "-")
	service, err := client.CoreV1().Services(s.namespace).Get(t.Context(), "svc-lab", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owners := service.OwnerReferences
	if len(owners) != 1 || owners[0].Kind != "Deployment" || owners[0].Name != "notebook-lab" || owners[0].UID == "" {
		t.Errorf("the service's owners are %+v, want the deployment", owners)
	}
}

func TestANameIsTakenByAJobOfAnyKind(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", notebook("lab"), "create", "-f", "-")
	before := s.objects()
	s.expect(4, "notebook-lab", training("lab"), "create", "-f", "-")
	s.expect(4, "already exists", notebook("lab"), "create", "-f", "-", "--dry-run=server")
	s.wantObjects(before)
}

func TestAJobIsTakenBackWhenItsServiceIsRefused(t *testing.T) {
	s := newSession(t)
	s.kubeconfig = s.restrictedUser("jobs", "deployments")
	s.expect(5, "nothing is left behind", notebook("lab"), "create", "-f", "-")
	s.wantObjects(0)
}

func TestAServiceOfSomeoneElseIsAConflictAndStays(t *testing.T) {
	s := newSession(t)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "svc-lab"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := client.CoreV1().Services(s.namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.expect(4, "Service svc-lab", notebook("lab"), "create", "-f", "-")
	s.expect(3, "", "", "delete", "lab")
	s.wantObjects(1)
}

var serverLine = regexp.MustCompile(`server: .*`)

func TestForbiddenAndUnreachable(t *testing.T) {
	s := newSession(t)
	s.kubeconfig = s.restrictedUser()
	s.expect(5, "forbidden", "", "get", "jobs")
	s.expect(5, "forbidden", training("sft"), "create", "-f", "-")
	config, err := os.ReadFile(server.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s.kubeconfig = s.file("dead", serverLine.ReplaceAllString(string(config), "server: https://127.0.0.1:1"))
	s.expect(9, "https://127.0.0.1:1", "", "get", "jobs")
	s.expect(9, "", training("sft"), "create", "-f", "-")
	s.wantObjects(0)
}

func TestACancelledCreateLeavesNothing(t *testing.T) {
	s := newSession(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.gpuctlContext(ctx, notebook("lab"), "create", "-f", "-"); got.code != 130 {
		t.Errorf("exit code %d, want 130: %s", got.code, got.stderr)
	}
	s.wantObjects(0)
}

func TestBadInputCreatesNothing(t *testing.T) {
	deep := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		deep += fmt.Sprintf("%c: &%c [%s]\n", 'b'+i, 'b'+i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 9), ","))
	}
	tests := map[string]struct{ yaml, want string }{
		"empty":                      {"", "empty"},
		"unknown kind":               {strings.Replace(training("x"), "training", "trainnig", 1), "did you mean \"training\"?"},
		"unknown field":              {strings.Replace(training("x"), "gpu:", "gpus:", 1), "did you mean \"gpu\"?"},
		"upper case and underscore":  {training("Bad_Name"), "Bad_Name"},
		"Chinese name":               {training("训练任务"), "训练任务"},
		"name of 64 characters":      {training(strings.Repeat("a", 64)), "<stdin>:4:"},
		"negative CPU":               {strings.Replace(training("x"), "cpu: 1", "cpu: -1", 1), "cpu"},
		"memory that is no quantity": {strings.Replace(training("x"), "1Gi", "abc", 1), "memory"},
		"tab":                        {strings.Replace(training("x"), "  gpu", "\tgpu", 1), "tab"},
		"10 MB":                      {training("x") + "# " + strings.Repeat("x", 10<<20), "too large"},
		"YAML bomb":                  {deep, "<stdin>"},
		"a good document before a bad one": {
			training("good") + "---\n" + strings.Replace(training("bad"), "gpu:", "gpus:", 1), "nothing was done",
		},
		"one name twice": {training("x") + "---\n" + notebook("x"), "x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			got := s.expect(2, tc.want, tc.yaml, "create", "-f", "-")
			if got.stdout != "" {
				t.Errorf("stdout is %q, want nothing", got.stdout)
			}
			s.wantObjects(0)
		})
	}
}

func TestFilesAreCheckedBeforeAnythingIsCreated(t *testing.T) {
	s := newSession(t)
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": training("a"), "b.yml": "kind: training\nnonsense: 1\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(2, "nonsense", "", "create", "-f", folder)
	s.wantObjects(0)
	if err := os.Remove(filepath.Join(folder, "b.yml")); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "", "", "create", "-f", folder, "-f", s.file("c.yaml", notebook("c")))
	s.wantObjects(3)
}

func TestAJobThatNoNodeCouldHoldIsWarnedOfOrRefused(t *testing.T) {
	s := newSession(t)
	s.node(s.namespace, map[string]string{names.LabelPool: "p-" + s.namespace})
	mistyped := training("sft") + "  pool: p-" + s.namespace + "x\n"
	s.expect(7, "did you mean", mistyped, "create", "-f", "-", "--require-fit")
	s.wantObjects(0)
	s.expect(0, "warning: training/sft will wait", mistyped, "create", "-f", "-")
	s.wantObjects(1)
}

func TestServerDryRunCreatesNothing(t *testing.T) {
	s := newSession(t)
	s.expect(5, "no PriorityClass with name g8s-medium was found", notebook("lab"), "create", "-f", "-", "--dry-run=server")
	apply(t, "scheduler/priorityclasses.yaml")
	s.expect(0, "", notebook("lab"), "create", "-f", "-", "--dry-run=server")
	s.wantObjects(0)
}

// restrictedUser may list all that gpuctl reads in the namespace and write the named resources, if there are any.
func (s *session) restrictedUser(writable ...string) string {
	s.Helper()
	user, err := server.AddUser(envtest.User{Name: s.namespace}, nil)
	if err != nil {
		s.Fatal(err)
	}
	if len(writable) > 0 {
		s.grant(rbacv1.PolicyRule{Verbs: []string{"create", "delete"}, APIGroups: []string{"*"}, Resources: writable},
			rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
	}
	config, err := user.KubeConfig()
	if err != nil {
		s.Fatal(err)
	}
	return s.file("restricted", string(config))
}

func (s *session) grant(rules ...rbacv1.PolicyRule) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: "restricted", Namespace: s.namespace}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	if _, err := client.RbacV1().Roles(s.namespace).Create(s.Context(), role, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: s.namespace}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "restricted"},
	}
	if _, err := client.RbacV1().RoleBindings(s.namespace).Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if err := rights.Await(s.Context(), client, s.namespace, binding.RoleRef, binding.Subjects[0]); err != nil {
		s.Fatal(err)
	}
}
