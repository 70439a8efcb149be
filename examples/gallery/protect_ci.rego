# Denies changes of CI workflows, and asks before dependencies change, in Rego. Needs the extra `rego`.
package hookgate

writes if input.tool_name in {"write_file", "replace"}

deny contains sprintf("%s is changed by people only.", [input.tool_input.file_path]) if {
	writes
	some folder in {".github", ".gitlab", ".circleci"}
	folder in split(input.tool_input.file_path, "/")
}

ask contains "This changes what the project depends on." if {
	writes
	some name in {"package.json", "pyproject.toml", "go.mod"}
	endswith(input.tool_input.file_path, name)
}

deny contains "Name the file in file_path." if {
	writes
	not is_string(input.tool_input.file_path)
}
