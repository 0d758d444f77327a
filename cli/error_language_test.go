package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/submit"
)

func TestErrorsInChinese(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: {gpus: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"an unknown command":   {[]string{"qeue"}, exitUsage, "错误：未知命令 \"gpuctl qeue\"（是不是 \"queue\"？）\n参见 'gpuctl --help'\n"},
		"a habit":              {[]string{"squeue"}, exitUsage, "错误：未知命令 \"gpuctl squeue\"：请用 gpuctl queue\n参见 'gpuctl --help'\n"},
		"an unknown flag":      {[]string{"get", "jobs", "--frobnicate"}, exitUsage, "错误：未知选项：--frobnicate\n参见 'gpuctl get jobs --help'\n"},
		"an unknown shorthand": {[]string{"get", "jobs", "-J"}, exitUsage, "错误：未知的短选项：'J'（在 -J 中）\n参见 'gpuctl get jobs --help'\n"},
		"a flag without value": {[]string{"get", "jobs", "--pool"}, exitUsage, "错误：选项缺少参数：--pool\n参见 'gpuctl get jobs --help'\n"},
		"a value":              {[]string{"get", "jobs", "--status", "runnin"}, exitUsage, "错误：未知状态 \"runnin\"（是不是 \"Running\"？）：应为 "},
		"a field to set":       {[]string{"run", "--image", "i", "--set", "resources.gup=1", "date"}, exitUsage, "错误：--set resources.gup=1：training.resources 没有字段 \"gup\"（是不是 \"gpu\"？）"},
		"type and number":      {[]string{"run", "--image", "i", "-g", "A100:x", "date"}, exitUsage, "错误：--gpu A100:x：\"x\" 不是 GPU 数：写成 TYPE:NUMBER，例如 A100-80G:2"},
		"too few arguments":    {[]string{"why"}, exitUsage, "错误：gpuctl why 需要一个任务或 Pod 的名称\n参见 'gpuctl why --help'\n"},
		"YAML":                 {[]string{"validate", "-f", wrong, "--kubeconfig", "none"}, exitUsage, "错误：YAML 中有 1 个错误；未做任何操作\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, _, stderr := TestIOStreams("")
			args := append([]string{"gpuctl", "--lang", "zh"}, tc.args...)
			if code := Run(t.Context(), NewFactory(streams), args); code != tc.code || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("%v ends with %d, and says\n%swant\n%s", args, code, stderr, tc.want)
			}
		})
	}
}

// TestErrorsOfTheClusterInChinese: what the API server says is quoted, and what to do about it is in Chinese.
func TestErrorsOfTheClusterInChinese(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	over := quota.Excess{
		Quota: "team", Resource: "requests.nvidia.com/gpu", Asked: resource.MustParse("9"), Used: resource.MustParse("2"), Hard: resource.MustParse("8"), Never: true,
	}
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"no such job": {
			&inventory.NotFoundError{Namespace: "team", Name: "sft"}, exitNotFound, "错误：命名空间 team 中没有任务 \"sft\"\n",
		},
		"no such pool": {
			&notFoundError{what: phrase.Textf("pool %q", "trian"), near: suggestSimilar("trian", []string{"train"})}, exitNotFound,
			"错误：没有找到 资源池 \"trian\"\n是不是 train？\n",
		},
		"not allowed": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")), exitForbidden,
			"错误：pods is forbidden: no\n没有权限：请集群管理员授予此权限，或换用其他 --context 或 --namespace\n",
		},
		"out of reach": {
			&url.Error{Op: "Get", URL: "https://k:6443/api", Err: errors.New("connection refused")}, exitUnreachable,
			"错误：connection refused\n无法连接集群：这个 kubeconfig 的集群在运行吗？它的 API server 是 https://k:6443\n",
		},
		"out of reach on the way to a pod": {
			phrase.Errorf("reading pod %s: %w", "a", &url.Error{Op: "Get", URL: "https://k:6443/api", Err: errors.New("connection refused")}), exitUnreachable,
			"错误：读取 Pod a：connection refused\n无法连接集群：",
		},
		"an edit that came too late": {
			phrase.Errorf("%w\nWhat you wrote is in %s", &submit.ChangedError{Job: "sft"}, "/tmp/a.yaml"), exitConflict,
			"错误：任务 \"sft\" 在此期间被别人更改了：未做任何操作，请重试\n你写的内容在 /tmp/a.yaml 中\n",
		},
		"what others have wrapped": {
			fmt.Errorf("retrying: %w", &inventory.NotFoundError{Namespace: "team", Name: "sft"}), exitNotFound,
			"错误：retrying: 命名空间 team 中没有任务 \"sft\"\n",
		},
		"several": {
			errors.Join(&inventory.NotFoundError{Namespace: "team", Name: "a"}, errors.New("no"), &inventory.NotFoundError{Namespace: "team", Name: "b"}), exitNotFound,
			"错误：命名空间 team 中没有任务 \"a\"\nno\n命名空间 team 中没有任务 \"b\"\n",
		},
		"a quota": {
			&submit.PodsRefusedError{Job: "sft", Cause: &submit.QuotaError{Excess: over}}, exitQuota,
			"错误：任务 sft 的 Pod 会被拒绝：申请 9 GPU，命名空间上限为 8（配额 team）：永远放不下\n超出配额：用 gpuctl get quotas 查看剩余\n",
		},
		"no cluster": {errNoCluster, exitUnreachable, "错误：没有配置集群：设置 KUBECONFIG，"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, _, stderr := TestIOStreams("")
			streams.Language = phrase.Chinese
			NewFactory(streams).printError(errorMessage(tc.err))
			if !strings.HasPrefix(stderr.String(), tc.want) {
				t.Errorf("it says\n%swant\n%s", stderr, tc.want)
			}
			if code := exitCode(tc.err); code != tc.code {
				t.Errorf("the exit code is %d, want %d", code, tc.code)
			}
		})
	}
}

// TestAnErrorKeepsItsCause: the exit code is decided by what an error wraps.
func TestAnErrorKeepsItsCause(t *testing.T) {
	cause := &inventory.NotFoundError{Namespace: "team", Name: "sft"}
	err := usageErrorf("reading %s: %w", "x", cause)
	if !errors.Is(err, cause) || err.Error() != `reading x: job "sft" not found in namespace team` {
		t.Errorf("it is %v", err)
	}
	if got := phrase.FromError(err).Localize(phrase.Chinese); got != `读取 x：命名空间 team 中没有任务 "sft"` {
		t.Errorf("in Chinese it is %s", got)
	}
}

func TestProblemsOfYAMLInChinese(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const text = `kind: training
job: {name: a}
environment: {image: i}
resources:
  gpus: 1
  cpu: lots
  memory: 32GB
  nodes: [1]
`
	want := `<stdin>:5:3: resources 中的未知字段 "gpus"（是不是 "gpu"？）
    gpus: 1
    ^
<stdin>:6:8: resources.cpu: "lots" 不是 CPU 数量（例如 8 或 500m）
    cpu: lots
         ^
<stdin>:7:11: resources.memory: "32GB" 不是 内存数量（例如 512Mi 或 32Gi）（是不是 32Gi？）
    memory: 32GB
            ^
<stdin>:8:10: resources.nodes 必须是单个值（whole number），不能是 列表
    nodes: [1]
           ^
错误：YAML 中有 4 个错误；未做任何操作
`
	streams, _, stderr := TestIOStreams(text)
	if code := Run(t.Context(), NewFactory(streams), []string{"gpuctl", "--lang", "zh", "render", "-f", "-"}); code != exitUsage {
		t.Errorf("the exit code is %d", code)
	}
	if stderr.String() != want {
		t.Errorf("it says\n%swant\n%s", stderr, want)
	}
}
