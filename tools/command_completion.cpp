// `baton completion SHELL`: the script by which a shell completes the command's words. It is made
// from the command's own table, which has every sub-command, its options and their values.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "option_checks.hpp"
#include "output.hpp"

namespace baton::tools {
namespace {

struct Option {
  std::string name;  // "--port"
  std::string help;
  bool takes_value = false;
  bool takes_file = false;
  std::vector<std::string> values;  // the valid words; empty: any text
};

// A command or sub-command: the words before it, and the words that may follow.
struct Place {
  std::string words;             // "", " echo", " bench fairness": each word with a blank before it
  std::vector<Option> commands;  // and the valid words of an argument without a name
  std::vector<Option> options;
};

Option to_option(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  Option made{"--" + option.get_lnames().front(), option.get_description(),
              option.get_items_expected_max() > 0, false, words_of(type)};
  made.takes_file = type.find("name of a") != std::string::npos;
  return made;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the table, two levels
void add_places(const CLI::App& app, const std::string& words, std::vector<Place>& places) {
  Place place{words, {}, {}};
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) {
    place.commands.push_back({command->get_name(), command->get_description(), false, false, {}});
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) {
      for (const std::string& word : words_of(option->get_type_name())) {
        place.commands.push_back({word, option->get_description(), false, false, {}});
      }
    } else {
      place.options.push_back(to_option(*option));
    }
  }
  places.push_back(std::move(place));
  for (const CLI::App* command : commands) {
    add_places(*command, words + " " + command->get_name(), places);
  }
}

// A text in single quotes, for each of the three shells.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return result + "'";
}

std::string names(const Place& place) {
  std::string result;
  for (const Option& one : place.commands) result += " " + one.name;
  for (const Option& one : place.options) result += " " + one.name;
  return result.empty() ? result : result.substr(1);
}

// The common beginning for bash and zsh: finds the sub-command that the words before this one name.
std::string find_place(const std::vector<Place>& places, std::string_view loop,
                       std::string_view word) {
  std::string known;
  for (const Place& place : places) {
    if (!place.words.empty()) known += (known.empty() ? "" : "|") + in_quotes(place.words);
  }
  return fmt::format(
      "  local at= i\n"
      "  for (({})); do\n"
      "    case \"$at {}\" in {}) at=\"$at {}\" ;; esac\n"
      "  done\n",
      loop, word, known, word);
}

std::string for_bash(const std::vector<Place>& places) {
  std::string text =
      "# bash completion for baton, made by `baton completion bash`\n"
      "_baton() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
      "  # --option=value comes as three words.\n"
      "  if [ \"$word\" = = ]; then word=; fi\n"
      "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n" +
      find_place(places, "i = 1; i < COMP_CWORD; ++i", "${COMP_WORDS[i]}") +
      "  COMPREPLY=()\n"
      "  case \"$at $before\" in\n";
  for (const Place& place : places) {
    for (const Option& option : place.options) {
      if (!option.takes_value) continue;
      // Without words the shell completes names of files.
      text += fmt::format("    {}) words={} ;;\n", in_quotes(place.words + " " + option.name),
                          in_quotes(fmt::format("{}", fmt::join(option.values, " "))));
    }
  }
  text += "    *)\n      case \"$at\" in\n";
  for (const Place& place : places) {
    text +=
        fmt::format("        {}) words={} ;;\n", in_quotes(place.words), in_quotes(names(place)));
  }
  return text +
         "      esac ;;\n"
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o default -F _baton baton\n";
}

std::string described(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) text += " " + in_quotes(option.name + ":" + option.help);
  return text;
}

std::string for_zsh(const std::vector<Place>& places) {
  std::string text =
      "#compdef baton\n"
      "# zsh completion for baton, made by `baton completion zsh`\n"
      "_baton() {\n"
      "  local -a commands options\n"
      "  local before=${words[CURRENT-1]}\n"
      "  if [[ $PREFIX == --*=* ]]; then before=${PREFIX%%=*}; compset -P '*='; fi\n" +
      find_place(places, "i = 2; i < CURRENT; ++i", "${words[i]}") + "  case \"$at $before\" in\n";
  for (const Place& place : places) {
    for (const Option& option : place.options) {
      if (!option.takes_value) continue;
      const std::string action = !option.values.empty()
                                     ? fmt::format("compadd -- {}", fmt::join(option.values, " "))
                                 : option.takes_file ? std::string{"_files"}
                                                     : "_message " + in_quotes(option.help);
      text += fmt::format("    {}) {}; return ;;\n", in_quotes(place.words + " " + option.name),
                          action);
    }
  }
  text += "  esac\n  case \"$at\" in\n";
  for (const Place& place : places) {
    text +=
        fmt::format("    {})\n      commands=({} )\n      options=({} ) ;;\n",
                    in_quotes(place.words), described(place.commands), described(place.options));
  }
  return text +
         "  esac\n"
         "  (( $#commands )) && _describe command commands\n"
         "  (( $#options )) && _describe -o option options\n"
         "}\n"
         "_baton \"$@\"\n";
}

std::string for_fish(const std::vector<Place>& places) {
  std::string known;
  for (const Place& place : places) {
    if (!place.words.empty()) known += " " + in_quotes(place.words);
  }
  std::string text =
      "# fish completion for baton, made by `baton completion fish`\n"
      "function __baton_at\n"
      "  set -l at ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    contains -- \"$at $word\"" +
      known +
      "; and set at \"$at $word\"\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c baton -f\n";
  for (const Place& place : places) {
    const std::string here =
        fmt::format("complete -c baton -n {}", in_quotes("__baton_at \"" + place.words + "\""));
    for (const Option& command : place.commands) {
      text += fmt::format("{} -a {} -d {}\n", here, command.name, in_quotes(command.help));
    }
    for (const Option& option : place.options) {
      std::string value;
      if (!option.values.empty()) {
        value = " -x -a " + in_quotes(fmt::format("{}", fmt::join(option.values, " ")));
      } else if (option.takes_file) {
        value = " -r -F";
      } else if (option.takes_value) {
        value = " -x";
      }
      text += fmt::format("{} -l {}{} -d {}\n", here, option.name.substr(2), value,
                          in_quotes(option.help));
    }
  }
  return text;
}

}  // namespace

void add_completion_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("completion", "Print the script that completes these words");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->callback([&app, &run, shell] {
    run = [&app, shell] {
      std::vector<Place> places;
      add_places(app, "", places);
      print_text(*shell == "bash"  ? for_bash(places)
                 : *shell == "zsh" ? for_zsh(places)
                                   : for_fish(places));
      return 0;
    };
  });
}

}  // namespace baton::tools
