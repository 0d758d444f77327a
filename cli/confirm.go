package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// confirm asks a person whether to do what cannot be undone. Where nobody can answer, yes must have been given.
func confirm(streams IOStreams, what string, yes bool) error {
	if yes {
		return nil
	}
	if !streams.InIsTerminal {
		return usagef("%s: nothing was done, because nobody can confirm it here. -y confirms it", what)
	}
	fmt.Fprintf(streams.ErrOut, "%s. Go on? [y/N] ", what)
	answer, err := bufio.NewReader(streams.In).ReadString('\n')
	if err != nil && answer == "" {
		return usagef("nothing was done: there was no answer")
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word == "y" || word == "yes" {
		return nil
	}
	return usagef("nothing was done")
}
