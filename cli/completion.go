package cli

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

func newCompletionCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash | zsh | fish | powershell}",
		Short: "Print the script that makes a shell complete gpuctl's commands and names",
		Example: "  source <(gpuctl completion bash)\n" +
			"  gpuctl completion zsh > \"${fpath[1]}/_gpuctl\"",
		Args:      requireOneArg(phrase.Textf("a shell: bash, zsh, fish or powershell")),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return writeBashCompletion(root, f.IO.Out)
			case "zsh":
				return root.GenZshCompletion(f.IO.Out)
			case "fish":
				return root.GenFishCompletion(f.IO.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(f.IO.Out)
			}
			return usageErrorf("unknown shell %q%s", args[0], spelling.DidYouMean(args[0], cmd.ValidArgs))
		},
	}
}

// bashWordsCall is the call in cobra's script that needs the package bash-completion, which many machines lack: it collects the words before the
// cursor.
const bashWordsCall = `_get_comp_words_by_ref "$@" cur prev words cword`

// fallbackBashWords does the same without that package: words are separated by blanks, so that = and : do not split them.
const fallbackBashWords = `if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        ` + bashWordsCall + `
        return
    fi
    local line="${COMP_LINE:0:COMP_POINT}"
    read -r -a words <<<"${line}"
    if [[ ${line} == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]} prev=${words[cword - 1]}`

// writeBashCompletion prints the script for bash, with or without the package bash-completion.
func writeBashCompletion(root *cobra.Command, out io.Writer) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	_, err := io.WriteString(out, strings.Replace(script.String(), bashWordsCall, fallbackBashWords, 1))
	return err
}

// requireOneArg requires one argument, and says what it is.
func requireOneArg(what phrase.Text) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageErrorf("%s needs %s\nSee '%s --help'", cmd.CommandPath(), what, cmd.CommandPath())
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("unexpected argument %q\nSee '%s --help'", args[0], cmd.CommandPath())
	}
	return nil
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 2 * time.Second

type completer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeNames completes with the names that list reads from the cluster. Without a cluster it completes nothing.
func completeNames(f *Factory, list func(context.Context, *inventory.Reader) ([]string, error)) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		reader, err := f.newReader()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names, err := list(ctx, reader)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeJobs(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		namespace, err := f.currentNamespace()
		if err != nil {
			return nil, err
		}
		jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace, Foreign: true})
		return collectNames(jobs, func(j inventory.Job) string { return j.Name }), err
	})
}

func completePools(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		cluster, err := reader.Fleet(ctx)
		return collectNames(cluster.Pools, func(p inventory.Pool) string { return p.Name }), err
	})
}

func completeNodes(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		cluster, err := reader.Fleet(ctx)
		return collectNames(cluster.Nodes, func(n inventory.Node) string { return n.Name }), err
	})
}

// completeFlags completes the values of the flags that all commands have.
func completeFlags(f *Factory, root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", completeNamespaces(f))
	_ = root.RegisterFlagCompletionFunc("lang", completeLanguages)
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		config, err := f.rules.Load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

func completeNamespaces(f *Factory) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		client, err := f.newKubernetesClient()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return collectNames(list.Items, func(n corev1.Namespace) string { return n.Name }), cobra.ShellCompDirectiveNoFileComp
	}
}

func collectNames[T any](rows []T, name func(T) string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = name(row)
	}
	return out
}
