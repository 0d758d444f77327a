package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// TestTheCatalogueHasTheHelp compares what commands and flags say of themselves with the Chinese catalogue, both ways.
func TestTheCatalogueHasTheHelp(t *testing.T) {
	const folder = "../pkg/phrase/zh/"
	words := map[string]string{}
	for _, file := range []string{"help.yaml", "long.yaml"} {
		data, err := os.ReadFile(folder + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, &words); err != nil {
			t.Fatal(err)
		}
	}
	streams, _, _ := TestIOStreams("")
	root := newRootCmd(NewFactory(streams), "gpuctl")
	root.InitDefaultHelpCmd()
	said := map[string]string{"Show this help": "translate"}
	for _, word := range helpWords {
		said[word] = "cobra"
		if !strings.Contains(root.UsageTemplate(), word) {
			t.Errorf("cobra's help does not say %q any more", word)
		}
	}
	collectHelp(root, said)
	for key, where := range said {
		if words[key] == "" {
			t.Errorf("%s has no words for what %s says: %q", folder, where, key)
		}
	}
	for key := range words {
		if said[key] == "" {
			t.Errorf("%s has words for what nobody says: %q", folder, key)
		}
	}
}

func collectHelp(cmd *cobra.Command, said map[string]string) {
	said[cmd.Short] = cmd.CommandPath()
	for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
		if key := paragraphKey(paragraph); key != "" {
			said[key] = cmd.CommandPath()
		}
	}
	for _, group := range cmd.Groups() {
		said[group.Title] = cmd.CommandPath()
	}
	for _, match := range exampleComment.FindAllStringSubmatch(cmd.Example, -1) {
		said[match[2]] = cmd.CommandPath()
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			said[flag.Usage] = cmd.CommandPath() + " --" + flag.Name
		}
	})
	for _, sub := range cmd.Commands() {
		collectHelp(sub, said)
	}
}

func TestHelpInChinese(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string
	}{
		"the list of commands": {[]string{"--help"}, []string{
			"gpuctl 在 Kubernetes 集群的 GPU 上运行任务。一个任务就是几行 YAML", "\n退出码：\n  0 成功", "用法：\n  gpuctl", "# 按文件提交\n", "任务：\n", "  why            说明任务为什么没有运行",
			"参数：\n", "-h, --help ", "显示帮助", "使用 \"gpuctl [command] --help\" 查看某个命令的详细信息。",
		}},
		"a command":                    {[]string{"why", "--help"}, []string{"说明任务为什么没有运行", "全局参数：\n", "任务所在的命名空间"}},
		"help as a command":            {[]string{"help", "queue"}, []string{"按调度器尝试的顺序列出等待 GPU 的任务：先按优先级", "只列此资源池的队列"}},
		"a command that groups others": {[]string{"get", "-h"}, []string{"列出节点及其 GPU"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			streams, stdout, _ := TestIOStreams("")
			streams.Language = phrase.English
			if code := Run(t.Context(), NewFactory(streams), append([]string{"gpuctl", "--lang", "zh"}, tc.args...)); code != exitOK {
				t.Errorf("it ends with %d", code)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("the help has no %q:\n%s", want, stdout)
				}
			}
		})
	}
}

// TestHelpIsEnglishByDefault, whatever the machine speaks that the tests run on.
func TestHelpIsEnglishByDefault(t *testing.T) {
	t.Setenv("LC_ALL", "zh_CN.UTF-8")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	streams, stdout, _ := TestIOStreams("")
	if Run(t.Context(), NewFactory(streams), []string{"gpuctl", "why", "--help"}); !strings.Contains(stdout.String(), "Global Flags:") {
		t.Errorf("it says\n%s", stdout)
	}
}
