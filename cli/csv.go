package cli

import (
	"encoding/csv"
	"fmt"
	"io"
)

// writeCSV writes rows as comma-separated values (RFC 4180), in the columns of the wide table.
func writeCSV[T any](out io.Writer, rows []T, columns []column[T], headers bool) error {
	shown := shownColumns(columns, true)
	w := csv.NewWriter(out)
	record := make([]string, len(shown))
	if headers {
		for i, c := range shown {
			record[i] = c.header
		}
		if err := w.Write(record); err != nil {
			return fmt.Errorf("writing the header: %w", err)
		}
	}
	for _, row := range rows {
		for i, c := range shown {
			record[i] = c.value(row)
		}
		if err := w.Write(record); err != nil {
			return fmt.Errorf("writing a row: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}
