package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/stand"
)

// mlTeam is the namespace of the case study, and caseStudy all of it that a cluster has once.
const (
	mlTeam    = "ml-team"
	caseStudy = "testdata/case-study.yaml"
	byKubectl = "apply --server-side --force-conflicts -k manifests/install"
)

// repairs are the commands that docs/install.md gives behind a phrase, with kubectl's line in place of Helm's where that is meant.
func repairs(t *testing.T, situation string, withHelm bool) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, there := strings.Cut(string(page), "\n"+situation)
	if !there || !strings.Contains(string(page), "`kubectl "+byKubectl+"`") {
		t.Fatalf("docs/install.md does not say what to do where %q, with kubectl alone as well", situation)
	}
	var commands []string
	for line := range strings.Lines(section) {
		command, indented := strings.CutPrefix(line, "    ")
		if !indented {
			if len(commands) > 0 {
				break
			}
			continue
		}
		command, _, _ = strings.Cut(command, "   #")
		if strings.HasPrefix(command, "helm ") && !withHelm {
			command = "kubectl " + byKubectl
		}
		commands = append(commands, strings.TrimSpace(command))
	}
	if len(commands) < 3 {
		t.Fatalf("docs/install.md says where %q to do %q", situation, commands)
	}
	return commands
}

// obey carries a command of the page out. The images are those of the manifests: none are built here.
func obey(t *testing.T, command string) {
	t.Helper()
	command = strings.ReplaceAll(strings.ReplaceAll(command, "-f bin/images/values.yaml ", ""), " manifests/", " "+manifestsDir+"/")
	program, rest, _ := strings.Cut(command, " ")
	if program == "helm" {
		run(t, strings.Fields(rest)...)
		return
	}
	if _, err := cluster.RunKubectl(t.Context(), strings.Fields(rest)...); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

// study applies the case study as its readers do, but for what is refused, and returns that. Its Deployment has an account and a
// ConfigMap that it does not show.
func study(t *testing.T) string {
	t.Helper()
	for _, args := range []string{"create namespace " + mlTeam, "create serviceaccount gpu-scheduler -n kube-system", "create configmap gpu-scheduler-config -n kube-system"} {
		_, _ = cluster.RunKubectl(t.Context(), strings.Fields(args)...) // they may be there
	}
	_, err := cluster.RunKubectl(t.Context(), "apply", "-f", caseStudy)
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestTheCaseStudyAndOursInEitherOrder: whoever has followed the case study finds that by the doctor, does what docs/install.md says, and has all
// of ours; and so where it is applied over ours.
func TestTheCaseStudyAndOursInEitherOrder(t *testing.T) {
	bounds.SkipInShort(t)
	for name, withHelm := range map[string]bool{"Helm": true, "kubectl": false} {
		t.Run("it was there first, "+name, func(t *testing.T) {
			t.Cleanup(func() { removeBoth(t, withHelm) })
			if refused := study(t); refused != "" {
				t.Fatalf("a cluster without us refuses the case study: %s", refused)
			}
			names := examined(t, client)["names"]
			if names.Status != doctor.Failed || !strings.Contains(names.Text.String(), "deployment gpu-scheduler, service gpu-scheduler-metrics") {
				t.Errorf("the doctor says %s: %s", names.Status, names.Text)
			}
			if err := install(t, withHelm); err == nil {
				t.Fatal("ours is installed over theirs, so there is nothing to show")
			}
			for _, command := range repairs(t, "**It was there first.**", withHelm) {
				obey(t, command)
			}
			areOurs(t)
		})
		t.Run("ours was there first, "+name, func(t *testing.T) {
			t.Cleanup(func() { removeBoth(t, withHelm) })
			if err := install(t, withHelm); err != nil {
				t.Fatal(err)
			}
			_, _ = cluster.RunKubectl(t.Context(), "create", "namespace", mlTeam)
			obey(t, "kubectl apply --server-side -f manifests/tenancy/roles.yaml -f manifests/tenancy/quota.yaml")
			if refused := study(t); !strings.Contains(refused, "immutable") {
				t.Errorf("the Deployment of the case study is not refused: %q", refused)
			}
			before := examined(t, client)["names"]
			if before.Status == doctor.OK {
				t.Errorf("the doctor finds nothing: %s", before.Text)
			}
			mayListJobs(t, false) // though kubectl apply has left the labels of the role, which are ours
			for _, command := range repairs(t, "**It was applied over ours.**", withHelm) {
				obey(t, command)
			}
			areOurs(t)
		})
	}
}

// install installs ours as docs/install.md begins.
func install(t *testing.T, withHelm bool) error {
	t.Helper()
	if withHelm {
		_, err := helm(t, "install", "g8s", chart, "-n", metav1.NamespaceSystem)
		return err
	}
	_, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-k", filepath.Join(manifestsDir, "install"))
	return err
}

// removeBoth takes the case study and ours away. It is called when the test's context has ended.
func removeBoth(t *testing.T, withHelm bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, args := range []string{
		"delete --ignore-not-found -f " + caseStudy, "delete --ignore-not-found -f " + manifestsDir + "/tenancy/roles.yaml",
		"delete --ignore-not-found namespace " + mlTeam, "-n kube-system delete --ignore-not-found lease gpu-scheduler",
	} {
		if _, err := cluster.RunKubectl(ctx, strings.Fields(args)...); err != nil {
			t.Error(err)
		}
	}
	if withHelm {
		if _, err := helmUntil(ctx, t, "uninstall", "g8s", "--namespace", metav1.NamespaceSystem); err != nil {
			t.Error(err)
		}
		removeLeftovers(ctx, t)
	} else {
		removeByKubectl(ctx, t)
	}
	if _, err := cluster.RunKubectl(ctx, strings.Fields("-n kube-system delete --ignore-not-found serviceaccount/gpu-scheduler configmap/gpu-scheduler-config")...); err != nil {
		t.Error(err)
	}
}

// areOurs: the doctor is content with the names, every object of ours is as the manifests have it, teams have their rights, what asks for no
// GPU gets none, and the scheduler leads by the account and the files that are installed.
func areOurs(t *testing.T) {
	t.Helper()
	expect(t, client, map[string]doctor.Status{"names": doctor.OK, "CRDs": doctor.OK, "policies": doctor.OK})
	selectors := func(o *unstructured.Unstructured) any {
		selector, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "selector")
		return selector
	}
	for key, want := range kustomize(t, "install") {
		switch want.GetKind() {
		case "Deployment", "DaemonSet", "Service":
			out, err := cluster.RunKubectl(t.Context(), "get", want.GetKind(), want.GetName(), "-n", want.GetNamespace(), "-o", "yaml")
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			for _, got := range parse(t, string(out)) {
				if diff := cmp.Diff(selectors(want), selectors(got)); diff != "" {
					t.Errorf("%s selects other pods (-manifests +cluster):\n%s", key, diff)
				}
			}
		}
	}
	mayListJobs(t, true)
	takesNoGPU(t)
	schedules(t)
}

// mayListJobs waits until the engineer of the case study, whom it gives the role gpu-resource-reader, may list jobs of the team, or may not.
func mayListJobs(t *testing.T, want bool) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "ml-engineer",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: mlTeam, Verb: "list", Group: "batch", Resource: "jobs"}}}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		got, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed == want, nil
	})
	if err != nil {
		t.Errorf("that the reader of the team may list its jobs does not become %v", want)
	}
}

// takesNoGPU has a pod that asks for no GPU get none by the LimitRange of the team.
func takesNoGPU(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "without", Namespace: mlTeam}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}}
	made, err := client.CoreV1().Pods(mlTeam).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; !got.IsZero() {
		t.Errorf("a pod that asks for no GPU gets %s", &got)
	}
}

// schedules has the scheduler run as the Deployment of the cluster says, until it leads.
func schedules(t *testing.T) {
	t.Helper()
	deployment, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "gpu-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	program := stand.New(t, cluster, client, metav1.NamespaceSystem, deployment.Spec.Template.Spec)
	program.Start(filepath.Dir(tools), "gpu-scheduler-after-"+strings.NewReplacer("/", "-", ",", "", " ", "-").Replace(t.Name()))
	leads(t, metav1.NamespaceSystem, "gpu-scheduler")
	if err := program.Stop(); err != nil {
		t.Error(err)
	}
}
