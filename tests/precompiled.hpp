// What most tests include, precompiled where BATON_PRECOMPILE is on (cmake/BatonPrecompile.cmake).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "baton/baton.hpp"
