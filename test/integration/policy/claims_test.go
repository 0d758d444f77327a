package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// requestOf asks for one device of a class, requestOfEither for one of several.
func requestOf(class string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}
}

func requestOfEither(classes ...string) resourcev1.DeviceRequest {
	out := resourcev1.DeviceRequest{Name: "e"}
	for i, class := range classes {
		out.FirstAvailable = append(out.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprint("s", i), DeviceClassName: class})
	}
	return out
}

// makeClaim makes a claim in dry run, makeTemplate a template of one.
func makeClaim(t *testing.T, who rest.ImpersonationConfig, namespace string, requests ...resourcev1.DeviceRequest) error {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}
	_, err := as(who).ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, dryRun)
	return err
}

func makeTemplate(t *testing.T, who rest.ImpersonationConfig, namespace string, requests ...resourcev1.DeviceRequest) error {
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "template-"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}}
	_, err := as(who).ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), template, dryRun)
	return err
}

func claiming(pod *corev1.Pod) {
	withoutGPUs(pod)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("template")}}
}

// quotaOf makes a GPUQuota of a namespace until the test ends, and waits until the API server holds claims to it.
func quotaOf(t *testing.T, name, namespace, others string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "quota.yaml")
	text := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUQuota\nmetadata: {name: %s, annotations: {%s: %q}}\nspec: {namespaces: [%s], pool: training-pool, max: 1}\n",
		name, names.AnnotationOtherDeviceClasses, others, namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-f", file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := cluster.RunKubectl(context.Background(), "delete", "gpuquota", name); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the quota to hold", func(context.Context) bool {
		err := makeClaim(t, user("ana"), namespace, requestOf("never-allowed"))
		return err != nil && strings.Contains(err.Error(), "GPUQuota "+name)
	})
}

// TestNoClaimIsPastAQuota: a GPUQuota counts no claims, so who is under one has none.
func TestNoClaimIsPastAQuota(t *testing.T) {
	if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-f", "../../../manifests/controller/claims.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := cluster.RunKubectl(context.Background(), "delete", "-f", "../../../manifests/controller/claims.yaml"); err != nil {
			t.Error(err)
		}
	})
	bounded, free, mixed := team(t, nil), team(t, nil), team(t, nil)
	for _, namespace := range []string{bounded, free, mixed} {
		bind(t, namespace, "edit") // Kubernetes' own role, which lets its users create claims
	}
	quotaOf(t, "bounded", bounded, "")
	quotaOf(t, "mixed", mixed, "nic.example.com  rdma")
	const refused = "may not claim devices of class gpu.nvidia.com: ask for GPUs"
	ana, gpu, nic := user("ana"), requestOf("gpu.nvidia.com"), requestOf("nic.example.com")

	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a claim":                                              {makeClaim(t, ana, bounded, gpu), "GPUQuota bounded counts no claims, so namespace " + bounded + " " + refused},
		"a template of one":                                    {makeTemplate(t, ana, bounded, gpu), refused},
		"one of several ways":                                  {makeClaim(t, ana, bounded, requestOfEither("gpu.nvidia.com", "mig.nvidia.com")), refused},
		"a claim of a class of its own":                        {makeClaim(t, ana, bounded, requestOf("h100")), "of class h100"},
		"a claim where nothing is counted":                     {makeClaim(t, ana, free, gpu), ""},
		"a claim of what is no GPU":                            {makeClaim(t, ana, mixed, nic), ""},
		"a claim of GPUs beside what is none":                  {makeClaim(t, ana, mixed, nic, func() resourcev1.DeviceRequest { r := gpu; r.Name = "g"; return r }()), refused},
		"a way to GPUs beside one to what is not":              {makeTemplate(t, ana, mixed, requestOfEither("rdma", "gpu.nvidia.com")), refused},
		"a claim that a controller makes":                      {makeClaim(t, serviceAccount("resource-claim-controller"), bounded, gpu), refused},
		"a claim that the scheduler makes for what is counted": {makeClaim(t, serviceAccount(names.SchedulerName), bounded, gpu), ""},
		"a claim that an administrator makes":                  {makeClaim(t, masters, bounded, gpu), ""},
	} {
		t.Run(name, func(t *testing.T) { checkRefusal(t, test.err, test.want) })
	}
	t.Run("a claim of an older version", func(t *testing.T) {
		claim := &resourcev1beta1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-"}, Spec: resourcev1beta1.ResourceClaimSpec{
			Devices: resourcev1beta1.DeviceClaim{Requests: []resourcev1beta1.DeviceRequest{{Name: "r", DeviceClassName: "gpu.nvidia.com"}}}}}
		_, err := as(ana).ResourceV1beta1().ResourceClaims(bounded).Create(t.Context(), claim, dryRun)
		if err != nil && strings.Contains(err.Error(), "could not find the requested resource") {
			t.Skip("the API server has it no more")
		}
		checkRefusal(t, err, refused)
	})

	const forPods = "may have none (gpus): ask for GPUs"
	pods := map[string]struct {
		namespace string
		change    func(*corev1.Pod)
		want      string
	}{
		"a pod with a claim":                            {bounded, claiming, forPods},
		"a pod with a claim, where others are allowed":  {mixed, claiming, ""},
		"a pod with a claim, where nothing is counted":  {free, claiming, ""},
		"a pod that asks for a class as for a resource": {bounded, asksFor("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "1"), refused},
		"a pod that asks for another class so":          {mixed, asksFor("deviceclass.resource.kubernetes.io/rdma", "1"), ""},
		"a pod that asks for GPUs":                      {bounded, func(*corev1.Pod) {}, ""},
	}
	for name, test := range pods {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			test.change(pod)
			checkRefusal(t, makePod(t, jobController, test.namespace, pod.DeepCopy()), test.want)
			for kind, make := range makers {
				t.Run(kind, func(t *testing.T) { checkRefusal(t, make(t, ana, test.namespace, pod.DeepCopy()), test.want) })
			}
		})
	}
}
